#include "launcher/inspect/written_sets.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "launcher/agent/image_sets.h"
#include "launcher/base/grammar.h"
#include "launcher/program/program.h"

namespace rejoin::launcher {
namespace {

using Json = nlohmann::ordered_json;

std::uint64_t bytes_of(const ImageSet& set) {
  std::uint64_t bytes = 0;
  for (const ImageSet::File& f : set.files) bytes += f.content.bytes;
  return bytes;
}

std::string command_of(const CheckpointOwner& owner) {
  std::string command = owner.program;
  for (const std::string& argument : owner.arguments) command += " " + argument;
  return one_line(command);
}

std::string text_of(const FoundImageSet& found) {
  const ImageSet& set = found.set;
  std::string text = one_line(set.path) + ": set " + std::to_string(set.number);
  if (found.file_faults.empty()) return text + " " + one_line(found.fault) + "\n";
  text += ", " + std::to_string(set.owner.ranks) + (set.owner.ranks == 1 ? " rank, " : " ranks, ") +
          size_text(bytes_of(set)) + ", cut at " +
          time_text(static_cast<std::uint64_t>(set.cut_at_s) * 1'000'000'000) + ", " +
          std::to_string(std::time(nullptr) - set.cut_at_s) + " s ago\n";
  const auto row = [&text](std::string name, const std::string& value) {
    if (name.size() < 9) name.resize(9, ' ');
    text += "    " + name + " " + value + "\n";
  };
  row("program", command_of(set.owner) + ", build " + one_line(set.owner.build));
  for (std::size_t i = 0; i < set.files.size(); ++i) {
    const std::string& fault = found.file_faults[i];
    row(one_line(set.files[i].name), size_text(set.files[i].content.bytes) + ", " +
                                         (fault.empty() ? "checksum correct" : fault));
  }
  row("needs", "the same kernel's vdso, " + std::to_string(set.machine.cpu_features.size()) +
                   " processor features, and these files as they were:");
  for (const auto& [path, build] : set.libraries) row("", one_line(path));
  row("--resume", !found.fault.empty()      ? "ignores this set"
                  : found.objection.empty() ? "can go on from this set here"
                                            : one_line(found.objection));
  return text;
}

std::string json_of(const FoundImageSet& found) {
  const ImageSet& set = found.set;
  Json json = {{"set", set.number}, {"path", set.path}, {"fault", found.fault}};
  if (!found.file_faults.empty()) {
    json.update({{"ranks", set.owner.ranks},
                 {"program", set.owner.program},
                 {"build", set.owner.build},
                 {"arguments", set.owner.arguments},
                 {"cut_at", set.cut_at_s},
                 {"bytes", bytes_of(set)},
                 {"objection", found.objection}});
    for (std::size_t i = 0; i < set.files.size(); ++i) {
      json["files"].push_back({{"name", set.files[i].name},
                               {"bytes", set.files[i].content.bytes},
                               {"fault", found.file_faults[i]}});
    }
    for (const auto& [path, build] : set.libraries) json["libraries"][path] = build;
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::optional<Error> print_image_sets(const std::string& directory, bool json,
                                      const std::function<void(const std::string&)>& out) {
  const auto sets = image_sets_in(directory, library_directory());
  bool whole = false;
  for (const FoundImageSet& found : sets) {
    out(json ? json_of(found) : text_of(found));
    whole |= found.fault.empty();
  }
  if (whole) return {};
  return Error{one_line(directory) + ": there is no " + (sets.empty() ? "" : "complete ") +
               "set of images in this directory"};
}

}  // namespace rejoin::launcher
