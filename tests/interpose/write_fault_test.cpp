// A fault in a full unit is explained, and then takes its course.
#include "interpose/write_fault.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "support/run_ranks.h"

namespace fsdp::interpose {
namespace {

using fsdp::testing::run_process;
using fsdp::testing::RunResult;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr size_t kBytes = 4096;
constexpr int kOwnEnd = 7;

char* read_only_page() {
  return static_cast<char*>(mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

enum class Before { Nobody, AProgramsHandler };

// A process in which `mode` was there before; `body` gets a page that is a full unit, and a name for what runs.
RunResult run_with(Before mode, const std::function<void(char* page, GuardedRange&)>& body) {
  return run_process([&] {
    struct sigaction before = {};
    before.sa_handler = SIG_DFL;
    if (mode == Before::AProgramsHandler) {
      before.sa_handler = [](int) {
        write(STDERR_FILENO, "the program's own\n", 18);
        _exit(kOwnEnd);
      };
    }
    sigaction(SIGSEGV, &before, nullptr);
    const std::atomic<const char*> operation = "mine::scale";
    GuardedRange unit("blocks.3", operation);
    char* page = read_only_page();
    unit.set(page, kBytes);
    body(page, unit);
    return 0;
  });
}

const auto explained = AllOf(HasSubstr("[fsdp unit=blocks.3] mine::scale wrote to a full parameter"),
                             HasSubstr("declare it there"), HasSubstr("sharded.full_parameters()"));

TEST(WriteFault, IsExplainedBeforeTheSignalEndsTheProcess) {
  const RunResult result = run_with(Before::Nobody, [](char* page, GuardedRange&) { page[kBytes - 1] = 1; });
  EXPECT_THAT(result.output, explained);
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV);
}

TEST(WriteFault, IsExplainedBeforeTheHandlerThatWasThereBefore) {
  const RunResult result = run_with(Before::AProgramsHandler, [](char* page, GuardedRange&) { page[0] = 1; });
  EXPECT_THAT(result.output, AllOf(explained, HasSubstr("the program's own")));
  EXPECT_EQ(result.exit_code, kOwnEnd);
}

void expect_programs_own(const RunResult& result) {
  EXPECT_THAT(result.output, AllOf(Not(HasSubstr("wrote to")), HasSubstr("the program's own")));
  EXPECT_EQ(result.exit_code, kOwnEnd);
}

TEST(WriteFault, ElsewhereIsThePrograms) {
  expect_programs_own(run_with(Before::AProgramsHandler, [](char*, GuardedRange&) { *read_only_page() = 1; }));
}

TEST(WriteFault, InAUnitThatIsNotFullAnyMoreIsThePrograms) {
  expect_programs_own(run_with(Before::AProgramsHandler, [](char* page, GuardedRange& unit) {
    unit.clear();
    *page = 1;
  }));
}

TEST(WriteFault, ThatWasSentAsASignalEndsTheProcessToo) {
  const RunResult result = run_with(Before::Nobody, [](char*, GuardedRange&) { raise(SIGSEGV); });
  EXPECT_THAT(result.output, Not(HasSubstr("wrote to")));
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV);
}

TEST(WriteFault, IsRecognisedInARangeThatIsUsedAgain) {
  const RunResult result = run_with(Before::Nobody, [](char*, GuardedRange&) {
    const std::atomic<const char*> none = nullptr;
    char* page = read_only_page();
    { GuardedRange gone("gone", none); }
    GuardedRange again("again", none);
    again.set(page, kBytes);
    page[1] = 1;
  });
  EXPECT_THAT(result.output, HasSubstr("[fsdp unit=again] something wrote to a full parameter"));
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV);
}

}  // namespace
}  // namespace fsdp::interpose
