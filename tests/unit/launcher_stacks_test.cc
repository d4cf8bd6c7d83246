// Stacks of debuggers are shortened, and ranks at the same place are grouped.
#include <gtest/gtest.h>

#include "launcher/agent/stacks.h"
#include "launcher/supervisor/standing_text.h"

namespace rejoin::launcher {
namespace {

using Lines = std::vector<std::string>;

TEST(ShortStack, OfEuStack) {
  EXPECT_EQ(short_stack(
                "PID 7 - process\n"
                "TID 7:\n"
                "#0  0x00007ffff7fb668d     syscall - /usr/lib/librejoin_libc.so\n"
                "#1  0x00007ffff7f28c8c     rejoin::Host::poll(unsigned int) - /r/libmpi.so.40\n"
                "#2  0x00007ffff7ec45b9     void rejoin::wait<A<B(int)>, C>(A&) - /r/libmpi.so.40\n"
                "#3  0x00007ffff7ef5a50     PMPI_Barrier - /r/libmpi.so.40\n"
                "#4  0x000055555555521f     solve(int, long) - /home/u/a b\n"
                "#5  0x0000555555555230 - /home/u/libx.so\n"
                "#6  0x0000555555555240     main - /home/u/a b\n"
                "#7  0x00007ffff7cbd24a     __libc_start_call_main - /usr/lib/libc.so.6\n"
                "#8  0x00007ffff7cbd305     __libc_start_main@@GLIBC_2.34 - /usr/lib/libc.so.6\n"
                "#9  0x00005555555550c1     _start - /home/u/a b\n"),
            (Lines{"#0 to #3 in Rejoin", "#4 solve (a b)", "#5 ?? (libx.so)", "#6 main (a b)"}));
}

TEST(ShortStack, OfGdb) {
  EXPECT_EQ(short_stack("Using host libthread_db library \"/lib/libthread_db.so.1\".\n"
                        "\n"
                        "Thread 1 (Thread 0x7f87 (LWP 72) \"sleep\"):\n"
                        "#0  syscall () at ../sysdeps/unix/sysv/linux/x86_64/syscall.S:38\n"
                        "#1  0x00007f rejoin::Host::sleep (this=0x1) at ../src/host.cc:160\n"
                        "#2  0x00007f in rejoin::f<int, char (*)(long)> (a=3, b=...) at /x/f.h:2\n"
                        "#3  0x00005606a9b254af in ?? ()\n"
                        "#4  0x00007f in iterate (n=<optimized out>) at /home/u/solver.c:12\n"
                        "#5  0x00007f in dlfunc () from /usr/lib/libother.so\n"
                        "#6  0x00007f in main () at a.c:3\n"),
            (Lines{"#0 to #2 in Rejoin", "#3 0x00005606a9b254af", "#4 iterate (solver.c:12)",
                   "#5 dlfunc (libother.so)", "#6 main (a.c:3)"}));
}

// gdb's stacks with Rejoin's source lines are recognised by the addresses of the code.
TEST(ShortStack, OfGdbByAddress) {
  const std::string maps =
      "1000-2000 r-xp 00000000 08:01 5 /home/u/a b.out\n"
      "2000-3000 rw-p 00000000 00:00 0 [heap]\n"
      "7f0000-7f1000 r-xp 00000000 08:01 6 /usr/lib/rejoin/librejoin_libc.so\n"
      "7f1000-7f2000 r-xp 00000000 08:01 7 /usr/lib/rejoin/libmpi.so.40\n"
      "7f2000-7f3000 r-xp 00000000 08:01 8 /usr/lib/libc.so.6\n";
  EXPECT_EQ(short_stack("#0  0x7f0010 in real_syscall () at /r/process.cc:46\n"
                        "#1  0x7f0fff in syscall () at /r/process.cc:196\n"
                        "#2  0x7f1000 in wait () at /r/waiting.h:20\n"
                        "#3  0x1fff in main () at /home/u/a.c:3\n",
                        maps),
            (Lines{"#0 to #2 in Rejoin", "#3 main (a.c:3)"}));
  EXPECT_EQ(short_stack("#0  0x7f2010 in nanosleep () at nanosleep.c:25\n"
                        "#1  0x2000 in jitted ()\n"
                        "#2  0x1000 in ?? ()\n",
                        maps),
            (Lines{"#0 nanosleep (nanosleep.c:25)", "#1 jitted", "#2 ?? (a b.out)"}));
}

// The program's own code that Rejoin calls, and a rank that is not in MPI, are shown.
TEST(ShortStack, OnlyRejoinsFramesAreFolded) {
  EXPECT_EQ(short_stack("#0  0x1 user_sum - /a.out\n"
                        "#1  0x1 rejoin::fold() - /libmpi.so.40\n"
                        "#2  0x1 PMPI_Allreduce - /libmpi.so.40\n"
                        "#3  0x1 main - /a.out\n"),
            (Lines{"#0 user_sum (a.out)", "#1 to #2 in Rejoin", "#3 main (a.out)"}));
  EXPECT_EQ(short_stack("#0  0x1 clock_nanosleep - /libc.so.6\n#1  0x1 sleep - /libc.so.6\n"
                        "#2  0x1 main - /a.out\n"),
            (Lines{"#0 clock_nanosleep (libc.so.6)", "#1 sleep (libc.so.6)", "#2 main (a.out)"}));
  EXPECT_EQ(short_stack("#0  0x1 PMPI_Wtime - /libmpi.so.40\n"), Lines{"#0 in Rejoin"});
}

TEST(ShortStack, NamesOfCxx) {
  const auto name = [](const std::string& frame) {
    return short_stack("#0  0x1 " + frame + " - /home/u/a.out\n").at(0);
  };
  EXPECT_EQ(name("solver::(anonymous namespace)::step(int)"),
            "#0 solver::(anonymous namespace)::step (a.out)");
  EXPECT_EQ(name("main::{lambda(int)#1}::operator()(int) const"),
            "#0 main::{lambda(int)#1}::operator() (a.out)");
  EXPECT_EQ(name("A::operator<(A const&)"), "#0 A::operator< (a.out)");
  EXPECT_EQ(name("A::operator->()"), "#0 A::operator-> (a.out)");
  EXPECT_EQ(name("std::ostream& operator<< <char>(std::ostream&)"),
            "#0 std::ostream& operator<< <char> (a.out)");
  EXPECT_EQ(short_stack("#0  0x1 in f (s=0x2 \"a - b\") at /x/y.c:3\n"), Lines{"#0 f (y.c:3)"});
}

TEST(ShortStack, ThreadsAndPython) {
  EXPECT_EQ(short_stack("Traceback (most recent call first):\n"
                        "  File \"train.py\", line 3, in step\n"
                        "    comm.Allreduce(a, b)\n"
                        "Thread 2 (LWP 8):\n#0  0x1 in work () at w.c:1\n"
                        "Thread 1 (LWP 7):\n#0  0x1 in main () at a.c:1\n"),
            (Lines{"File \"train.py\", line 3, in step", "thread 1", "#0 work (w.c:1)", "thread 2",
                   "#0 main (a.c:1)"}));
  EXPECT_EQ(short_stack(""), Lines{});
  EXPECT_EQ(short_stack("#\n#x\n#1\n\n"), Lines{});
}

TEST(Standing, TheSmallestGroupFirst) {
  std::vector<Stood> ranks;
  for (std::uint32_t r = 0; r < 9; ++r) {
    ranks.push_back({r, 100 + r, "sleeping", "in Barrier #6", {"#0 main"}});
  }
  ranks[2] = {2, 102, "running", "after Allreduce #5", {"#0 loop", "#1 main"}};
  ranks[5].pid = 0;
  ranks[6].stack = {"#0 other"};
  EXPECT_EQ(standing_text(ranks),
            "rejoin: rank 2 (process 102, running) is after Allreduce #5\n"
            "    #0 loop\n"
            "    #1 main\n"
            "rejoin: rank 5 has ended\n"
            "rejoin: rank 6 (process 106, sleeping) is in Barrier #6\n"
            "    #0 other\n"
            "rejoin: ranks 0, 1, 3, 4, 7, 8 (processes 100, 101, 103, 104, ..., sleeping) are in "
            "Barrier #6\n"
            "    #0 main\n");
  for (Stood& s : ranks) s.pid = 0;
  EXPECT_EQ(standing_text(ranks), "rejoin: ranks 0-8 have ended\n");
}

TEST(Standing, AgesOfImages) {
  std::vector<Stood> ranks(2);
  ranks[1].rank = 5;
  ranks[1].image_age_ns = 600'000'000;
  EXPECT_EQ(ages_text(ranks), "rejoin: newest images: rank 0 none, rank 5 600.0 ms old\n");
  ranks.resize(20);
  for (std::uint32_t i = 2; i < 20; ++i) ranks[i].rank = 10 + i;
  ranks[18].image_age_ns = 2'000'000'000;
  ranks[19].image_age_ns = 9'000'000'000;
  ranks[19].over = true;
  const std::string text = ages_text(ranks);
  EXPECT_EQ(text.find("rank 26"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("; the oldest of all is 2.0 s old; 17 ranks have none\n")) << text;
}

}  // namespace
}  // namespace rejoin::launcher
