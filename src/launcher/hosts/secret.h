// The secret that ftrun and the agents that join it have in common: the text of a file.
#pragma once

#include <optional>
#include <string>

#include "launcher/base/result.h"

namespace rejoin::launcher {

// Names the file, if no option does.
inline constexpr const char* kSecretFileVariable = "REJOIN_SECRET_FILE";

// Returns the text of the file without spaces and newlines at its end. Errors: it is not there; it
// has less than 32 characters; it is another user's; or others may read it, unless it is root's on
// a file system that is mounted read-only, as secrets of Kubernetes are: there every user of the
// container may be meant to read it, and none of them can change it.
Result<std::string> read_secret(const std::string& path);

// Makes the file, which is for this user only, with a random secret. Errors: it cannot be written,
// or is there.
std::optional<Error> make_secret(const std::string& path, const std::string& secret);

}  // namespace rejoin::launcher
