// The command line, the small languages on it, ELF files, call sites and event lines.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "elf_image.h"
#include "launcher/base/grammar.h"
#include "launcher/cli/options.h"
#include "launcher/cli/translations.h"
#include "launcher/program/elf.h"
#include "launcher/supervisor/events.h"
#include "launcher/symbolizer/symbolizer.h"

namespace rejoin::launcher {
namespace {

TEST(Grammar, Kills) {
  using journal::Moment;
  using journal::PointKind;
  const auto expect = [](const char* text, const KillOrder& order) {
    const auto parsed = parse_kill(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.error().text;
    EXPECT_EQ(parsed.value(), order) << text;
    EXPECT_EQ(parse_kill(to_text(order)).value(), order) << text;
  };
  expect("2@1000", {2, 0, PointKind::kOperation, Moment::kInside, 1000});
  expect("0@1.before", {0, 0, PointKind::kOperation, Moment::kBefore, 1});
  expect("7@5.after#3", {7, 3, PointKind::kOperation, Moment::kAfter, 5});
  expect("1@init", {1, 0, PointKind::kInit, Moment::kInside, 0});
  expect("1@init.before#1", {1, 1, PointKind::kInit, Moment::kBefore, 0});
  expect("1@finalize.after", {1, 0, PointKind::kFinalize, Moment::kAfter, 0});
}

TEST(Grammar, InvalidKills) {
  for (const char* text : {"", "@", "2", "2@", "@5", "2@0", "2@-1", "x@5", "2@x", "2@5.",
                           "2@5.while", "2@5#", "2@5#x", "2@5#-1", "2@init.", "2@5 ",
                           "2@5.before.after", "4294967296@1", "1@99999999999999999999"}) {
    const auto parsed = parse_kill(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().exit_code, kExitUsage);
    EXPECT_NE(parsed.error().text.find("RANK@POINT[#INCARNATION]"), std::string::npos);
    EXPECT_EQ(parsed.error().text.find('\n'), std::string::npos);
  }
}

TEST(Grammar, Sizes) {
  EXPECT_EQ(parse_size_bytes("1").value(), 1u);
  EXPECT_EQ(parse_size_bytes("512M").value(), 512u << 20);
  EXPECT_EQ(parse_size_bytes("8g").value(), std::uint64_t{8} << 30);
  EXPECT_EQ(parse_size_bytes("4KiB").value(), 4096u);
  EXPECT_EQ(parse_size_bytes("2T").value(), std::uint64_t{2} << 40);
  EXPECT_EQ(parse_size_bytes("10B").value(), 10u);
  for (const char* text : {"", "0", "M", "1.5G", "-1", "1X", "1MM", "1 M", "99999999999T", "0K"}) {
    EXPECT_FALSE(parse_size_bytes(text).ok()) << text;
  }
}

TEST(Grammar, SizesAsText) {
  EXPECT_EQ(size_text(17), "17 bytes");
  EXPECT_EQ(size_text(1024), "1 KiB");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text(std::uint64_t{12} << 30), "12 GiB");
}

Result<Command> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "ftrun");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

std::string error_of(const std::vector<const char*>& words) {
  const auto parsed = parse(words);
  EXPECT_FALSE(parsed.ok()) << words.back();
  return parsed.ok() ? "" : parsed.error().text;
}

RunOptions run(const std::vector<const char*>& words) {
  const auto parsed = parse(words);
  EXPECT_TRUE(parsed.ok()) << parsed.error().text;
  return std::get<RunOptions>(parsed.value());
}

TEST(Options, Defaults) {
  const RunOptions o = run({"a.out"});
  ASSERT_EQ(o.programs.size(), 1u);
  EXPECT_FALSE(o.programs[0].ranks.has_value());
  EXPECT_EQ(o.programs[0].command, std::vector<std::string>{"a.out"});
  EXPECT_EQ(o.max_restarts, 4u);
  EXPECT_TRUE(o.restart);
  EXPECT_TRUE(o.libc_recording);
  EXPECT_EQ(o.on_divergence, OnDivergence::kRollBack);
  EXPECT_EQ(run({"--on-divergence", "warn", "a.out"}).on_divergence, OnDivergence::kWarn);
  EXPECT_FALSE(o.keep);
}

TEST(Options, EndWhereTheProgramBegins) {
  const RunOptions o = run({"-n", "3", "a.out", "-n", "5", "--quiet"});
  EXPECT_EQ(o.programs[0].ranks, 3u);
  EXPECT_EQ(o.programs[0].command, (std::vector<std::string>{"a.out", "-n", "5", "--quiet"}));
  EXPECT_FALSE(o.quiet);
  EXPECT_EQ(run({"-n", "2", "--", "-odd-"}).programs[0].command, std::vector<std::string>{"-odd-"});
}

TEST(Options, InEverySpelling) {
  for (const std::vector<const char*>& words :
       std::vector<std::vector<const char*>>{{"-n", "4", "x"},
                                             {"-n4", "x"},
                                             {"-np", "4", "x"},
                                             {"--np", "4", "x"},
                                             {"--np=4", "x"},
                                             {"-c", "4", "x"},
                                             {"-N", "4", "x"},
                                             {"-ppn", "4", "x"},
                                             {"-ppn", "9", "-n", "4", "x"},
                                             {"--npernode=4", "x"}}) {
    EXPECT_EQ(run(words).programs[0].ranks, 4u);
  }
  const RunOptions o = run({"-wdir", "/d", "-x", "A=b=c", "-x", "D", "--kill", "0@1", "--kill=1@2",
                            "-tag-output", "-timeout", "2.5", "-q", "--no-restart", "x"});
  const ProgramOptions& program = o.programs[0];
  EXPECT_EQ(program.working_directory, "/d");
  ASSERT_EQ(program.exports.size(), 2u);
  EXPECT_EQ(program.exports[0].second, "b=c");
  EXPECT_FALSE(program.exports[1].second.has_value());
  EXPECT_EQ(o.kills.size(), 2u);
  EXPECT_TRUE(o.output.tagged && o.quiet && !o.restart);
  EXPECT_EQ(o.timeout_ns, 2'500'000'000u);
}

TEST(Options, OfSeveralPrograms) {
  const RunOptions o = run({"-n",    "1",  "-q", "-x", "A=1", "a", "b",  ":", "-np", "3",
                            "-wdir", "/d", "c",  "-n", "9",   ":", "-n", "2", "--",  "-e"});
  ASSERT_EQ(o.programs.size(), 3u);
  EXPECT_TRUE(o.quiet);
  EXPECT_EQ(o.programs[0].command, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(o.programs[0].exports.size(), 1u);
  EXPECT_EQ(o.programs[1].ranks, 3u);
  EXPECT_EQ(o.programs[1].command, (std::vector<std::string>{"c", "-n", "9"}));
  EXPECT_EQ(o.programs[1].working_directory, "/d");
  EXPECT_TRUE(o.programs[1].exports.empty());
  EXPECT_EQ(o.programs[2].ranks, 2u);
  EXPECT_EQ(o.programs[2].command, std::vector<std::string>{"-e"});

  for (const auto& [words, says] : std::vector<std::pair<std::vector<const char*>, const char*>>{
           {{"-n", "1", "a", ":"}, "no program after :"},
           {{":", "-n", "1", "a"}, "no program to run"},
           {{"-n", "1", "a", ":", "b"}, "give the number of ranks of b with -n"},
           {{"a", ":", "-n", "1", "b"}, "give the number of ranks of a with -n"},
           {{"-n", "1", "a", ":", "-n", "1", "-q", "b"}, "in front of the first program"},
           {{"-n", "1", "a", ":", "-n", "1", "--wdi", "d", "b"}, "did you mean --wdir"},
           {{"-n", "1000", "a", ":", "-n", "25", "b"}, "1025 ranks"}}) {
    EXPECT_NE(error_of(words).find(says), std::string::npos) << error_of(words);
  }
}

TEST(Options, OfOtherLaunchers) {
  const RunOptions o = run({"-l",
                            "-timestamp-output",
                            "-genv",
                            "A",
                            "1",
                            "-env",
                            "B",
                            "c d",
                            "-genvall",
                            "--get-stack-traces",
                            "--mca",
                            "btl",
                            "tcp,self",
                            "--map-by=core",
                            "-merge-stderr-to-stdout",
                            "--output-filename",
                            "out:nocopy",
                            "--stdin",
                            "none",
                            "-bind-to",
                            "l3cache",
                            "--cpu-set",
                            "0-2,5",
                            "x",
                            "-l"});
  EXPECT_TRUE(o.output.tagged && o.output.timed && o.output.merged);
  EXPECT_EQ(o.output.directory, "out");
  EXPECT_FALSE(o.output.shown || o.standard_input);
  EXPECT_EQ(o.binding, Binding::kL3);
  ASSERT_TRUE(o.processors.has_value());
  EXPECT_EQ(CPU_COUNT(&*o.processors), 4);
  EXPECT_TRUE(CPU_ISSET(5, &*o.processors));
  ASSERT_EQ(o.programs[0].exports.size(), 2u);
  EXPECT_EQ(o.programs[0].exports[0].first, "A");
  EXPECT_EQ(o.programs[0].exports[1].second, "c d");
  EXPECT_EQ(o.programs[0].command, (std::vector<std::string>{"x", "-l"}));
  ASSERT_EQ(o.notices.size(), 2u);
  EXPECT_NE(o.notices[0].find("--mca btl=tcp,self has no effect"), std::string::npos);
  EXPECT_NE(o.notices[1].find("--map-by core has no effect"), std::string::npos);

  for (const auto& [words, says] : std::vector<std::pair<std::vector<const char*>, const char*>>{
           {{"-H", "a,", "x"}, "--host a,: is not a list of hosts"},
           {{"-H", "-oProxyCommand=x", "x"}, "is not a list of hosts"},
           {{"-H", "a;b", "x"}, "is not a list of hosts"},
           {{"-hosts", "localhost:", "x"}, "is not a list of hosts"},
           {{"-host", "localhost:x", "x"}, "is not a list of hosts"},
           {{"--host=localhost:1x", "x"}, "is not a list of hosts"},
           {{"-H", ",", "x"}, "is not a list of hosts"},
           {{"-H", "localhost:0", "x"}, "is not a list of hosts"},
           {{"-n", "8", "-H", "localhost:4", "x"}, "-n 8 are more ranks than the 4 that --host"},
           {{"-n", "9", "-H", "a:4,b:4", "x"}, "-n 9 are more ranks than the 8 that --host"},
           {{"-H", "a", "--hostfile", "b", "x"}, "give only one of them"},
           {{"--hostfile", "no/such/file", "x"}, "cannot be read (No such file"},
           {{"-f", "/dev/null", "x"}, "--hostfile /dev/null: names no host"},
           {{"-f", "/dev/zero", "x"}, "--hostfile /dev/zero: is not a list of hosts"},
           {{"-n", "8", "-ppn", "4", "x"}, "are more ranks than the 4 that"},
           {{"--mca", "a"}, "--mca needs a value"},
           {{"-genv=A", "B", "x"}, "-genv does not take a value after ="},
           {{"--events", "", "-n", "1", "x"}, "--events: its value is empty"},
           {{"-x", "", "-n", "1", "x"}, "-x: its value is empty"},
           {{"-ppn", "", "-n", "1", "x"}, "-ppn: its value is empty"},
           {{"--wdir=", "-n", "1", "x"}, "--wdir: its value is empty"},
           {{"--stdin", "3", "x"}, "only rank 0"},
           {{"--cpu-set", "3-1", "x"}, "not a list of processors"},
           {{"--cpu-set", "1,", "x"}, "not a list of processors"},
           {{"--output-filename", ":nocopy", "x"}, "give the name of a directory"},
           {{"-z", "x"}, "unknown option -z; ftrun -h lists the options"}}) {
    EXPECT_NE(error_of(words).find(says), std::string::npos) << error_of(words);
  }
}

TEST(Options, Layout) {
  const auto job = [](const std::vector<const char*>& words) {
    RunOptions o = run(words);
    const auto error = complete(o, 2);
    return error ? error->text : std::to_string(o.ranks()) + " ranks";
  };
  EXPECT_EQ(job({"--layout", "2,3,1", "x"}), "6 ranks");
  EXPECT_EQ(job({"--layout", "2,2", "-n", "4", "x"}), "4 ranks");
  EXPECT_EQ(job({"--layout", "2,2", "-n", "1", "x", ":", "-n", "3", "y"}), "4 ranks");
  EXPECT_NE(job({"--layout", "2,2", "-n", "3", "x"}).find("4 ranks together, and the job has 3"),
            std::string::npos);
  EXPECT_EQ(job({"--layout", "2,2", "--between-nodes", "messages", "x"}), "4 ranks");
  EXPECT_NE(job({"-n", "4", "--between-nodes", "messages", "x"}).find("needs several nodes"),
            std::string::npos);
  RunOptions o = run({"--layout", "2,3,1", "x"});
  ASSERT_FALSE(complete(o, 2));
  std::string places;
  for (std::uint32_t r = 0; r < 6; ++r) {
    const RunOptions::Place place = o.place_of(r);
    places += " " + std::to_string(place.node) + ":" + std::to_string(place.rank) + "/" +
              std::to_string(place.size);
  }
  EXPECT_EQ(places, " 0:0/2 0:1/2 1:0/3 1:1/3 1:2/3 2:0/1");
  for (const char* text : {",", "2,", ",2", "2,,2", "2,x", "0,2", "-1", "2 2", "1000,1000"}) {
    EXPECT_NE(error_of({"--layout", text, "x"}).find(std::string("--layout ") + text + ": "),
              std::string::npos)
        << text;
  }
}

TEST(Options, Hosts) {
  using Words = std::vector<const char*>;
  char own[256] = "";
  ASSERT_EQ(gethostname(own, sizeof own - 1), 0);
  const auto ranks = [](const Words& words) { return run(words).programs[0].ranks; };
  EXPECT_EQ(ranks({"-H", "localhost", "x"}), std::nullopt);
  EXPECT_EQ(ranks({"-H", "localhost", "-n", "8", "x"}), 8u);
  EXPECT_EQ(ranks({"--host", "localhost:4", "x"}), 4u);
  EXPECT_EQ(ranks({"-host=localhost:4", "-n", "2", "x"}), 2u);
  EXPECT_EQ(ranks({"-H", "localhost:8", "-N", "4", "x"}), 4u);
  EXPECT_EQ(ranks({"-hosts", "localhost,127.0.0.1:2", "x"}), 3u);
  EXPECT_EQ(ranks({"-H", own, "-n", "3", "x"}), 3u);
}

TEST(Options, SeveralHosts) {
  using Words = std::vector<const char*>;
  const auto laid_out = [](const Words& words) {
    RunOptions options = run(words);
    const auto error = complete(options, 2);
    if (error) return error->text;
    std::string text;
    for (std::size_t i = 0; i < options.hosts.size(); ++i) {
      text += options.hosts[i] + " " + std::to_string(options.layout[i]) + "; ";
    }
    return text;
  };
  EXPECT_EQ(laid_out({"-H", "a:2,b:3", "x"}), "a 2; b 3; ");
  EXPECT_EQ(laid_out({"-H", "a:2,b:3", "-n", "4", "x"}), "a 2; b 2; ");
  EXPECT_EQ(laid_out({"-H", "a:2,b:3", "-n", "2", "x"}), "a 2; ");
  EXPECT_EQ(laid_out({"-H", "a,b,a", "x"}), "a 2; b 1; ");
  EXPECT_EQ(laid_out({"-H", "a,b", "--npernode", "4", "x"}), "a 4; b 4; ");
  EXPECT_EQ(laid_out({"-H", "me@a:1", "x"}), "me@a 1; ");
  EXPECT_EQ(laid_out({"-H", "a:2,b:2", "-n", "1", "x", ":", "-n", "3", "y"}), "a 2; b 2; ");
  EXPECT_NE(laid_out({"-H", "a:2,b:2", "--layout", "2,2", "x"}).find("--layout lays out nodes"),
            std::string::npos);
  EXPECT_NE(laid_out({"-H", "a:2,b:2", "-n", "3", "x", ":", "-n", "3", "y"}).find("2 more than"),
            std::string::npos);
}

TEST(Options, HostsOfAFile) {
  using List = std::vector<HostSlots>;
  EXPECT_EQ(hosts_of_file("localhost\n").value(), (List{{"localhost", {}}}));
  EXPECT_EQ(hosts_of_file("# ours\n\n  a slots=2 max_slots=4 # here\nme@b.c:3\n").value(),
            (List{{"a", 2}, {"me@b.c", 3}}));
  EXPECT_EQ(hosts_of_file("a user=me binding=core slots=2\n").value(), (List{{"me@a", 2}}));
  for (const char* wrong : {"a slots", "a:1 slots=2", "a slots=0", "a sluts=2",
                            "a slots=", "me@a user=you", "a user=-oX", "-a", "a b"}) {
    const auto list = hosts_of_file(std::string("ok\n") + wrong);
    ASSERT_FALSE(list.ok()) << wrong;
    EXPECT_EQ(list.error().text.find(", line 2: \""), 0u) << list.error().text;
  }
  const std::string path = testing::TempDir() + "hosts." + std::to_string(getpid());
  std::ofstream(path) << "127.0.0.1 slots=3\n";
  for (const char* option : {"--hostfile", "-machinefile", "-f"}) {
    EXPECT_EQ(run({option, path.c_str(), "x"}).programs[0].ranks, 3u);
  }
  EXPECT_EQ(run({"-f", path.c_str(), "-n", "2", "x"}).programs[0].ranks, 2u);
  EXPECT_NE(error_of({"-f", path.c_str(), "-n", "4", "x"}).find("are more ranks than"),
            std::string::npos);
  unlink(path.c_str());
}

TEST(Options, TasksOfSlurm) {
  using Tasks = std::vector<std::uint32_t>;
  EXPECT_EQ(tasks_of_slurm("3"), Tasks{3});
  EXPECT_EQ(tasks_of_slurm("2(x3),1"), (Tasks{2, 2, 2, 1}));
  EXPECT_EQ(tasks_of_slurm("1,12(x2)"), (Tasks{1, 12, 12}));
  for (const char* wrong : {"", "0", "2,", ",2", "2(x0)", "2(x)", "2(x2", "2(3)", "2x3", "-1", "2 ",
                            "1(x1025)", "1(x4294967297)", "1(x1000),1(x25)"}) {
    EXPECT_EQ(tasks_of_slurm(wrong), std::nullopt) << wrong;
  }
}

TEST(Options, ProcessorsOfEachRank) {
  using Words = std::vector<const char*>;
  const auto expect = [](const Words& words, std::optional<std::uint32_t> ranks,
                         std::optional<std::uint32_t> each) {
    const ProgramOptions program = run(words).programs[0];
    EXPECT_EQ(program.ranks, ranks);
    EXPECT_EQ(program.processors_each, each);
  };
  expect({"-n", "4", "-c", "2", "x"}, 4, 2);
  expect({"-c2", "-n", "4", "x"}, 4, 2);
  expect({"-n", "4", "--cpus-per-task=2", "x"}, 4, 2);
  expect({"-n", "4", "--cpus-per-rank", "2", "x"}, 4, 2);
  expect({"--map-by", "ppr:2:node:pe=3", "x"}, 2, 3);
  expect({"--map-by", "ppr:2:node:PE=3", "-n", "1", "x"}, 1, 3);
  expect({"-n", "2", "-map-by", "slot:pe=4", "x"}, 2, 4);
  expect({"-n", "2", "--map-by", "ppr:1:socket", "x"}, 2, std::nullopt);
  EXPECT_TRUE(run({"-n", "2", "--map-by", "slot:pe=4", "x"}).notices.empty());
  EXPECT_EQ(run({"-n", "2", "--map-by", "core:pe=4", "x"}).notices.size(), 1u);
  const RunOptions alone = run({"-c", "4", "x"});
  EXPECT_EQ(alone.programs[0].ranks, 4u);
  ASSERT_EQ(alone.notices.size(), 1u);
  EXPECT_NE(alone.notices[0].find("srun's -c is --cpus-per-task"), std::string::npos);
  for (const auto& [words, says] : std::vector<std::pair<Words, const char*>>{
           {{"-n", "4", "-c", "two", "x"}, "-c two: not a number"},
           {{"-c", "two", "x"}, "-c two: not a number of ranks"},
           {{"--map-by", "slot:pe=2", "--npernode", "zero", "x"}, "--npernode zero: not a number"},
           {{"-n", "4", "--cpus-per-rank", "two", "x"}, "--cpus-per-rank two: not a number"},
           {{"-n", "4", "--map-by", "slot:pe=two", "x"}, "--map-by slot:pe=two: pe two: not a"},
           {{"--map-by", "ppr:0:node", "x"},
            "--map-by ppr:0:node: 0: not a number of ranks; give a whole number from 1 to 1024"},
           {{"-n", "4", "-c", "0", "x"}, "-c 0: not a number"},
           {{"--map-by", "ppr:2:socket", "x"}, "give the number of ranks with -n"},
           {{"-n", "2", "-c", "2", "--bind-to", "numa", "x"}, "give only one of them"}}) {
    EXPECT_NE(error_of(words).find(says), std::string::npos) << error_of(words);
  }
}

TEST(Options, RanksGoToTheNodesInTurn) {
  using Words = std::vector<const char*>;
  const auto nodes = [](Words words) {
    words.push_back("x");
    RunOptions o = run(words);
    const auto error = complete(o, 2);
    EXPECT_FALSE(error) << error->text;
    std::vector<std::uint32_t> all;
    for (std::uint32_t r = 0; r < o.ranks(); ++r) {
      const RunOptions::Place place = o.place_of(r);
      EXPECT_EQ(place.rank, std::count(all.begin(), all.end(), place.node));
      EXPECT_EQ(place.size, o.layout[place.node]);
      if (place.rank == 0) {
        EXPECT_EQ(o.first_rank_of(place.node), r);
      }
      all.push_back(place.node);
    }
    EXPECT_TRUE(o.notices.empty());
    return all;
  };
  using Nodes = std::vector<std::uint32_t>;
  EXPECT_EQ(nodes({"--layout", "1,3,2"}), (Nodes{0, 1, 1, 1, 2, 2}));
  EXPECT_EQ(nodes({"--layout", "1,3,2", "--map-by", "slot"}), (Nodes{0, 1, 1, 1, 2, 2}));
  EXPECT_EQ(nodes({"--layout", "1,3,2", "--map-by", "node"}), (Nodes{0, 1, 2, 1, 2, 1}));
  EXPECT_EQ(nodes({"-H", "a:4,b:1,c:4", "-n", "6", "-bynode"}), (Nodes{0, 1, 2, 0, 2, 0}));
  EXPECT_EQ(nodes({"-H", "a:4,b:1,c:4", "-n", "6"}), (Nodes{0, 0, 0, 0, 1, 2}));
  EXPECT_EQ(nodes({"-H", "a:4,b:4,c:4", "-n", "2", "--map-by", "node:pe=1"}), (Nodes{0, 1}));
}

TEST(Options, OfOtherLaunchersInOneLine) {
  using Words = std::vector<const char*>;
  for (const auto& [words, says] : std::vector<std::pair<Words, const char*>>{
           {{"-u", "x"}, nullptr},
           {{"--nodes=1", "x"}, nullptr},
           {{"-pernode", "x"}, nullptr},
           {{"--nolocal", "x"}, "--nolocal has no effect: all ranks run on this host"},
           {{"--kill-on-bad-exit=1", "x"}, "--no-restart"},
           {{"--gpus", "2", "x"}, "every rank sees every GPU"},
           {{"--xterm=0", "x"}, "--output-filename"},
           {{"--nproc_per_node=2", "x"}, "--nproc_per_node 2: --torch sets"}}) {
    const auto notices = run(words).notices;
    ASSERT_EQ(notices.size(), says == nullptr ? 0u : 1u) << words[0];
    const std::string notice = says != nullptr ? notices[0] : "";
    EXPECT_NE(notice.find(says != nullptr ? says : ""), std::string::npos) << notice;
  }
  EXPECT_EQ(run({"--nproc_per_node", "2", "x"}).programs[0].ranks, 2u);
  EXPECT_EQ(run({"-pernode", "x"}).programs[0].ranks, 1u);
  for (const auto& [words, says] : std::vector<std::pair<Words, const char*>>{
           {{"-o", "out", "x"}, "-o out: not an option of ftrun; write > FILE"},
           {{"--nodes", "2", "x"}, "name the hosts with --host"},
           {{"--multi-prog", "x"}, "PROGRAM : -n 3 OTHER"},
           {{"-N", "1", "-n", "4", "x"}, "srun's -N, is --nodes"}}) {
    EXPECT_NE(error_of(words).find(says), std::string::npos) << error_of(words);
  }
}

// Every option that is accepted is documented.
TEST(Options, OfOtherLaunchersAreInTheDocs) {
  std::ifstream page(REJOIN_SOURCE_DIR "/docs/from-mpirun.md");
  const std::string text((std::istreambuf_iterator<char>(page)), std::istreambuf_iterator<char>());
  ASSERT_FALSE(text.empty());
  for (const Translation& t : translations()) {
    EXPECT_NE(text.find("`" + std::string(t.theirs) + "`"), std::string::npos) << t.theirs;
  }
}

TEST(Options, Mistakes) {
  for (const std::vector<const char*>& words :
       std::vector<std::vector<const char*>>{{},
                                             {"-n", "0", "x"},
                                             {"-n", "1025", "x"},
                                             {"-n"},
                                             {"--frobnicate", "x"},
                                             {"-y", "x"},
                                             {"--kill", "5", "x"},
                                             {"--libc-recording", "no", "x"},
                                             {"--timeout", "-1", "x"},
                                             {"--max-restarts", "many", "x"},
                                             {"--journal-limit", "0", "x"},
                                             {"-x", "=b", "x"},
                                             {"-qn", "x"}}) {
    const auto parsed = parse(words);
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.error().exit_code, kExitUsage);
    EXPECT_EQ(parsed.error().text.find('\n'), std::string::npos);
  }
  EXPECT_NE(parse({"--max-restart", "1", "x"}).error().text.find("--max-restarts"),
            std::string::npos);
}

// The error of an option that takes a number names the value, and what the option takes.
TEST(Options, InvalidNumbers) {
  using Words = std::vector<const char*>;
  const char* const ranks = "not a number of ranks; give a whole number from 1 to 1024";
  const char* const processors =
      "not a number of processors for each rank; give a whole number from 1 to 1024";
  const char* const restarts = "not a number of restarts; give a whole number from 0 to 4294967295";
  const char* const time = "not a time; give a number of seconds from 0.001 to 1e9";
  const char* const size =
      "is not a size; give a whole number from 1, in bytes or with K, M, G or T (for example 512M)";
  for (const auto& [words, says] : std::vector<std::pair<Words, std::string>>{
           {{"-n", "1e3", "x"}, std::string("-n 1e3: ") + ranks},
           {{"-n", "0", "x"}, std::string("-n 0: ") + ranks},
           {{"-n", "99999999999999999999", "x"}, std::string("-n 99999999999999999999: ") + ranks},
           {{"--npernode", "-2", "x"}, std::string("--npernode -2: ") + ranks},
           {{"--cpus-per-rank", "1.5", "x"}, std::string("--cpus-per-rank 1.5: ") + processors},
           {{"--max-restarts", "1e3", "x"}, std::string("--max-restarts 1e3: ") + restarts},
           {{"--max-restarts", "-1", "x"}, std::string("--max-restarts -1: ") + restarts},
           {{"--max-restarts=4294967296", "x"},
            std::string("--max-restarts 4294967296: ") + restarts},
           {{"--heartbeat", "0", "x"}, std::string("--heartbeat 0: ") + time},
           {{"--checkpoint-dir=d", "--checkpoint-every", "ten", "x"},
            std::string("--checkpoint-every ten: ") + time},
           {{"--checkpoint-dir=d", "--grace", "-1", "x"}, std::string("--grace -1: ") + time},
           {{"--grace", "9", "x"}, "--grace needs --checkpoint-dir DIR"},
           {{"--timeout", "0", "x"},
            "--timeout 0: not a time; give a number of seconds, more than 0 and at most 1e9"},
           {{"--snapshots", "often", "x"},
            "--snapshots often: give auto, off, or a number of seconds from 0.001 to 1e6"},
           {{"--snapshot-every", "1e3", "x"}, std::string("--snapshot-every: \"1e3\" ") + size},
           {{"--bootstrap-limit", "0", "x"}, std::string("--bootstrap-limit: \"0\" ") + size},
           {{"--journal-limit", "1.5G", "x"}, std::string("--journal-limit: \"1.5G\" ") + size},
           {{"inspect", "f", "--rank", "1024"},
            "--rank 1024: not a rank; give a whole number from 0 to 1023"},
           {{"inspect", "f", "--limit", "1e3"},
            "--limit 1e3: not a number of records; give a whole number from 0 to "
            "18446744073709551615"}}) {
    EXPECT_EQ(error_of(words), says);
  }
  EXPECT_EQ(run({"--max-restarts", "0", "x"}).max_restarts, 0u);
  EXPECT_EQ(run({"--max-restarts=4294967295", "x"}).max_restarts, UINT32_MAX);
}

TEST(Options, Inspect) {
  const auto parsed = parse({"inspect", "f", "--rank", "2", "--limit", "10", "--json", "g"});
  ASSERT_TRUE(parsed.ok());
  const auto& o = std::get<InspectOptions>(parsed.value());
  EXPECT_EQ(o.files, (std::vector<std::string>{"f", "g"}));
  EXPECT_TRUE(o.json);
  EXPECT_EQ(o.rank, 2u);
  EXPECT_EQ(o.limit, 10u);
}

using test::elf_needing;

TEST(Elf, Needed) {
  const std::vector<std::string> sonames = {"libm.so.6", "libmpich.so.12", "libc.so.6"};
  EXPECT_EQ(needed_of(elf_needing(sonames)), sonames);
  EXPECT_TRUE(needed_of("").empty());
  EXPECT_TRUE(needed_of("#!/bin/sh\n").empty());
}

TEST(Elf, DamagedFilesAreHarmless) {
  const std::string whole = elf_needing({"libmpi.so.40", "libc.so.6"});
  for (std::size_t size = 0; size < whole.size(); ++size) needed_of(whole.substr(0, size));
  for (std::size_t at = 4; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(0xff);
    needed_of(damaged);
  }
  EXPECT_EQ(needed_of(whole).size(), 2u);
}

TEST(Elf, ForeignMpis) {
  for (const char* soname :
       {"libmpich.so.12", "libmpi.so.12", "libmpi.so.1", "libmpi.so.20", "libmpi_mpifh.so.20",
        "libmpi_usempif08.so.30", "libmpi_mpifh.so.12"}) {
    EXPECT_TRUE(is_foreign_mpi(soname)) << soname;
    EXPECT_NE(foreign_mpi_text("p", soname).find(soname), std::string::npos);
  }
  for (const char* soname :
       {"libmpi.so.40", "libmpi_cxx.so.40", "libmpi_mpifh.so.40", "libmpi_usempif08.so.40",
        "libmpi_usempi_ignore_tkr.so.40", "libc.so.6", "libmpifr.so.1"}) {
    EXPECT_FALSE(is_foreign_mpi(soname)) << soname;
  }
}

TEST(Sites, AreReplacedInText) {
  const auto site = [](std::uint32_t rank, std::uint32_t module, std::uint64_t place) {
    return "<" + std::to_string(rank) + " " + std::to_string(module) + " " + std::to_string(place) +
           ">";
  };
  EXPECT_EQ(expand_sites("at {1:2:ff}!", site), "at <1 2 255>!");
  EXPECT_EQ(expand_sites("{0:0:1}{3:1:10}", site), "<0 0 1><3 1 16>");
  EXPECT_EQ(expand_sites("{} {1:2} {a:b:c} {1:2:3", site), "{} {1:2} {a:b:c} {1:2:3");
  EXPECT_EQ(expand_sites("{{1:2:3}}", site), "{<1 2 3>}");
  EXPECT_EQ(expand_sites(site_marker(7, 8, 0xabc), site), "<7 8 2748>");
}

TEST(Sites, AsTheProgramNamesThem) {
  journal::ModuleEntry module = {};
  module.build_id_bytes = journal::kNamedSite;
  Symbolizer symbolizer("/no/such/directory");
  const std::pair<const char*, const char*> sites[] = {
      {"src/solver.c::iterate", "src/solver.c:12::iterate"},
      {"a.cc::Model::fit", "a.cc:12::Model::fit"},
      {"::f", ":12::f"},
      {"somewhere", "somewhere:12"},
  };
  for (const auto& [path, text] : sites) {
    strcpy(module.path, path);
    EXPECT_EQ(rough_site(module, 12), text);
    EXPECT_EQ(symbolizer.describe(module, 12), text);
  }
}

TEST(Sites, WithoutDebugInformation) {
  journal::ModuleEntry module = {};
  strcpy(module.path, "/no/such/directory/solver");
  EXPECT_EQ(rough_site(module, 0x1a2b), "solver+0x1a2b");
  EXPECT_EQ(Symbolizer("/no/such/directory").describe(module, 0x1a2b), "solver+0x1a2b");
}

TEST(Events, AreOneLineOfJson) {
  Record record;
  record.event = "death";
  record.at_ns = 1500;
  record.rank = 2;
  record.epoch = 1;
  record.pid = 99;
  Position position;
  position.context = 0xab;
  position.sequence = 4;
  position.ordinal = 5;
  position.inside = true;
  position.operation = "Allreduce";
  position.site = "a.out+0x12";
  record.position = position;
  record.cause = Cause{Cause::Kind::kSignal, 9};
  record.replayed_operations = 0;
  const std::string expected =
      R"j({"t":2e-06,"wall":1700000000.250002,"event":"death","rank":2,"incarnation":0,"epoch":1,)j"
      R"j("pid":99,"position":{"context":"00000000000000ab","sequence":4,"ordinal":5,)j"
      R"j("operation":"Allreduce","inside":true,"site":"a.out+0x12"},)j"
      R"j("cause":"signal 9 (Killed)","replayed_ops":0})j";
  EXPECT_EQ(to_json(record, 1700000000.25), expected);
}

TEST(Events, WithoutARankAndWithOddBytes) {
  Record record;
  record.event = "stop";
  record.code = 3;
  record.text = "a\"b\n\xff";
  EXPECT_EQ(to_json(record, 0),
            "{\"t\":0.0,\"wall\":0.0,\"event\":\"stop\",\"epoch\":0,\"code\":3,"
            "\"text\":\"a\\\"b\\n\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace rejoin::launcher
