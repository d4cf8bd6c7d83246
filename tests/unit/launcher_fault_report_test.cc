// Parsing of a rank's report of its own fault, with valid and invalid contents.
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>

#include "launcher/agent/fault_report.h"

namespace rejoin::launcher {
namespace {

FaultReport report_of(int signal, const std::string& text) {
  wire::Message message = {};
  message.type = wire::MessageType::kFault;
  message.code = signal;
  message.text_bytes = static_cast<std::uint32_t>(text.copy(message.text, sizeof message.text));
  return fault_report(3, message);
}

TEST(FaultReport, TheProgramsInnermostFrameIsTheSite) {
  const FaultReport report = report_of(SIGABRT,
                                       "-6 0 7ffe00\n1a2b 00ff12 /lib/libc.so.6\n"
                                       "2a 0102 /home/u/solve\n30 0102 /home/u/solve\n"
                                       "99 00ff12 /lib/libc.so.6\n9a 00ff12 /lib/libc.so.6\n"
                                       "10 0102 /home/u/solve");
  EXPECT_EQ(report.signal, SIGABRT);
  EXPECT_EQ(report.fault.text, "");
  EXPECT_EQ(report.fault.site, "{3:2147483649:2a}");
  EXPECT_EQ(report.fault.stack,
            (std::vector<std::string>{"#0 {3:2147483648:1a2b}", "#1 {3:2147483649:2a}",
                                      "#2 {3:2147483649:30}"}));
  ASSERT_EQ(report.modules.size(), 2u);
  EXPECT_STREQ(report.modules[1].path, "/home/u/solve");
  EXPECT_EQ(report.modules[1].build_id_bytes, 2u);
  EXPECT_EQ(report.modules[0].build_id[1], 0xff);
}

TEST(FaultReport, FramesOfRejoinAreFoldedAndNamedIfTheFaultIsThere) {
  const FaultReport report = report_of(SIGSEGV,
                                       "1 10 7ffe00\n1 - /l/libmpi.so.40\n2 - /l/libmpi.so.40\n"
                                       "3 - /l/librejoin_libc.so\n4 - /home/u/a path/solve");
  EXPECT_EQ(report.fault.text, "address 0x10 is not mapped");
  EXPECT_EQ(report.fault.site, "{3:2147483650:4}");
  EXPECT_EQ(report.fault.stack,
            (std::vector<std::string>{
                "#0 to #2 in Rejoin (libmpi.so.40 +0x0 +0x1, librejoin_libc.so +0x2)",
                "#3 {3:2147483650:4}"}));
  EXPECT_STREQ(report.modules[2].path, "/home/u/a path/solve");
}

TEST(FaultReport, TheReasonThatTheKernelGives) {
  const auto text = [](int signal, const char* head) {
    return report_of(signal, std::string(head) + "\n1 - /solve").fault.text;
  };
  EXPECT_EQ(text(SIGSEGV, "1 7ffdf0 7ffe00"), "the stack is full (ulimit -s)");
  EXPECT_EQ(text(SIGSEGV, "2 10 7ffe00"), "address 0x10 does not allow this access");
  EXPECT_EQ(text(SIGSEGV, "128 0 7ffe00"), "an invalid (non-canonical) address");
  EXPECT_EQ(text(SIGSEGV, "-6 0 7ffe00"), "");
  EXPECT_EQ(text(SIGBUS, "2 10 7ffe00"), "address 0x10 is beyond the end of its mapped file");
  EXPECT_EQ(text(SIGFPE, "1 10 7ffe00"), "an integer was divided by zero");
}

TEST(FaultReport, CodeInNoFileIsNotBlamed) {
  const FaultReport report = report_of(SIGSEGV, "1 0 7ffe00\n1 - ?\n2a - /solve");
  EXPECT_EQ(report.fault.site, "{3:2147483649:2a}");
  EXPECT_EQ(report.fault.stack[0], "#0 0x0 (in no file)");
}

TEST(FaultReport, InvalidReports) {
  for (const char* text : {"", "x", "1 2", "1 2 3", "1 2 3\n", "1 2 3\nzz", "1 2 3\n4 -"}) {
    const FaultReport report = report_of(SIGSEGV, text);
    EXPECT_TRUE(report.fault.site.empty()) << text;
    EXPECT_TRUE(report.fault.stack.empty()) << text;
  }
}

}  // namespace
}  // namespace rejoin::launcher
