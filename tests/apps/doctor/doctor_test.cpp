// Findings of machines that are made up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "doctor/build.h"
#include "doctor/limits.h"
#include "doctor/memory.h"
#include "doctor/processor.h"
#include "doctor/text.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

const Finding& about(const std::vector<Finding>& findings, const std::string& subject) {
  for (const Finding& finding : findings) {
    if (finding.subject == subject) return finding;
  }
  ADD_FAILURE() << "nothing is said of " << subject;
  return findings.front();
}

constexpr const char* kCpuInfo =
    "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu sse avx2 fma avx512f avx512_bf16\n\n"
    "processor\t: 1\nmodel name\t: Some CPU\nflags\t\t: fpu sse avx2 fma avx512f avx512_bf16\n";

TEST(DoctorProcessor, IsReadFromTheKernelAndItsGroups) {
  const TemporaryFolder root;
  root.write("proc/cpuinfo", kCpuInfo);
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("proc/self/mountinfo", "31 30 0:29 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n");
  root.write("sys/fs/cgroup/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/job/cpu.max", "150000 100000\n");
  const Processor processor = read_processor(root.path());
  EXPECT_EQ(processor.model, "Some CPU");
  EXPECT_EQ(processor.cores, 2);
  EXPECT_GE(processor.usable, 1);
  EXPECT_DOUBLE_EQ(processor.quota, 1.5);
  EXPECT_THAT(processor.features, ElementsAre("avx2", "fma", "avx512f", "avx512_bf16"));
}

TEST(DoctorProcessor, HasNoQuotaWhereGroupsOfVersion1SetNone) {
  const TemporaryFolder root;
  root.write("proc/self/cgroup", "4:cpu,cpuacct:/job\n");
  root.write("proc/self/mountinfo", "31 30 0:29 / /cg rw - cgroup cgroup rw,cpu,cpuacct\n");
  root.write("cg/job/cpu.cfs_quota_us", "-1\n");
  root.write("cg/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(read_processor(root.path()).quota, 0);
  root.write("cg/job/cpu.cfs_quota_us", "50000\n");
  EXPECT_DOUBLE_EQ(read_processor(root.path()).quota, 0.5);
}

TEST(DoctorProcessor, IsBetterWithItsQuotaKnown) {
  const Finding all = about(findings_of(Processor{.cores = 8, .usable = 8}), "cores");
  EXPECT_EQ(all.verdict, Verdict::Ok);
  EXPECT_EQ(all.text, "8, all of them usable");
  const Finding some = about(findings_of(Processor{.cores = 8, .usable = 4, .quota = 2.5}), "cores");
  EXPECT_EQ(some.verdict, Verdict::Note);
  EXPECT_THAT(some.text, HasSubstr("8, of which this process may use 4; a control group allows the time of 2.5"));
  EXPECT_EQ(some.mend, "export OMP_NUM_THREADS=2");
}

TEST(DoctorProcessor, IsSlowInBf16WithoutWideInstructions) {
  const auto is_slow = [](std::vector<std::string> features) {
    return Processor{.features = std::move(features)}.is_slow_in_bf16();
  };
  EXPECT_TRUE(is_slow({"avx2", "fma"}));
  EXPECT_FALSE(is_slow({"avx2", "fma", "avx512f"}));
  EXPECT_FALSE(is_slow({"asimd", "bf16"}));
  EXPECT_FALSE(is_slow({}));
}

TEST(DoctorProcessor, NamesItsInstructions) {
  const auto verdict = [](std::vector<std::string> features) {
    return about(findings_of(Processor{.cores = 1, .usable = 1, .features = std::move(features)}), "instructions")
        .verdict;
  };
  EXPECT_EQ(verdict({"avx2", "avx512_bf16"}), Verdict::Ok);
  EXPECT_EQ(verdict({"asimd", "bf16"}), Verdict::Ok);
  EXPECT_EQ(verdict({"avx2", "fma"}), Verdict::Note);
  EXPECT_EQ(verdict({}), Verdict::Note);
}

TEST(DoctorMemory, IsReadFromTheKernelAndItsGroups) {
  const TemporaryFolder root;
  root.write("proc/meminfo", "MemTotal:  8000000 kB\nMemFree: 1 kB\nMemAvailable:  6000000 kB\n");
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("proc/self/mountinfo", "31 30 0:29 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n");
  root.write("sys/fs/cgroup/job/memory.max", "4096000000\n");
  root.write("sys/fs/cgroup/job/memory.current", "96000000\n");
  for (const char* node : {"node0", "node1", "node_of_others"}) {
    root.write(std::string("sys/devices/system/node/") + node + "/cpulist", "0\n");
  }
  root.write("sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size [advise] never deny force\n");
  const Memory memory = read_memory(root.path());
  EXPECT_EQ(memory.total_bytes, 8'192'000'000u);
  EXPECT_EQ(memory.free_bytes, 4'000'000'000u);
  EXPECT_EQ(memory.limit_bytes, 4'096'000'000u);
  EXPECT_THAT(memory.limit, EndsWith("job/memory.max"));
  EXPECT_EQ(memory.nodes, 2);
  EXPECT_EQ(memory.huge_pages, "advise");
  EXPECT_EQ(about(findings_of(memory), "memory").verdict, Verdict::Ok);
  EXPECT_EQ(about(findings_of(memory), "/dev/shm").text, "there is none; ranks share memory without it");
}

TEST(DoctorMemory, IsAProblemWhereThereIsHardlyAny) {
  const auto verdict = [](size_t free) {
    return about(findings_of(Memory{.total_bytes = size_t{8} << 30, .free_bytes = free}), "memory").verdict;
  };
  EXPECT_EQ(verdict(size_t{4} << 30), Verdict::Ok);
  EXPECT_EQ(verdict(size_t{1} << 30), Verdict::Note);
  EXPECT_EQ(verdict(size_t{100} << 20), Verdict::Problem);
}

Limits fine_limits() {
  return {.kernel = "6.1.0",
          .open_files = 4096,
          .locale = "C.UTF-8",
          .terminal = {.interactive = true, .colour = true, .utf8 = true},
          .free_disk_bytes = 100'000'000'000};
}

TEST(DoctorLimits, AreFineWhereNothingBites) {
  for (const Finding& finding : findings_of(fine_limits(), false))
    EXPECT_EQ(finding.verdict, Verdict::Ok) << finding.subject;
}

TEST(DoctorLimits, SayWhatMendsThem) {
  Limits limits = fine_limits();
  limits.open_files = 256;
  limits.locked_bytes = 8 << 20;
  limits.file_bytes = 1 << 20;
  limits.address_bytes = 1 << 30;
  limits.locale = "POSIX";
  limits.terminal.utf8 = false;
  limits.free_disk_bytes = 1'000'000'000;
  const std::vector<Finding> findings = findings_of(limits, true);
  for (const auto& [subject, mend] :
       {std::pair("open files", "ulimit -n 4096"), std::pair("file size", "ulimit -f unlimited"),
        std::pair("address space", "ulimit -v unlimited"), std::pair("locked memory", "ulimit -l unlimited"),
        std::pair("locale", "export LC_ALL=C.UTF-8")}) {
    EXPECT_EQ(about(findings, subject).verdict, Verdict::Note) << subject;
    EXPECT_EQ(about(findings, subject).mend, mend);
  }
  EXPECT_EQ(about(findings, "working folder").verdict, Verdict::Note);
  EXPECT_EQ(about(findings_of(limits, false), "locked memory").verdict, Verdict::Ok);  // by CPUs none is locked
}

TEST(DoctorLimits, AreProblemsWhereTheyKeepItFromTraining) {
  Limits limits = fine_limits();
  limits.kernel = "4.19.0-21-amd64";
  limits.open_files = 20;
  limits.is_writable = false;
  const std::vector<Finding> findings = findings_of(limits, false);
  for (const char* subject : {"kernel", "open files", "working folder"}) {
    EXPECT_EQ(about(findings, subject).verdict, Verdict::Problem) << subject;
  }
  limits.is_writable = true;
  limits.free_disk_bytes = 1000;
  EXPECT_EQ(about(findings_of(limits, false), "working folder").verdict, Verdict::Problem);
}

TEST(DoctorBuild, SaysWhatIsNotBuiltInAndHowToHaveIt) {
  const Build all{.version = "1.0", .type = "Release", .has_gloo = true, .has_nccl = true, .has_tokenizers = true};
  for (const Finding& finding : version_findings(all)) EXPECT_EQ(finding.verdict, Verdict::Ok) << finding.subject;
  for (const Finding& finding : backend_findings(all, 2, true))
    EXPECT_EQ(finding.verdict, Verdict::Ok) << finding.subject;

  const Build bare{.version = "1.0", .type = "Dev", .sentencepiece_problem = "this program was built without it"};
  for (const auto& [subject, mend] :
       {std::pair("fsdp-train", "cmake --build --preset release"), std::pair("sentencepiece", "libsentencepiece-dev"),
        std::pair("tokenizers", "pip install tokenizers")}) {
    EXPECT_EQ(about(version_findings(bare), subject).verdict, Verdict::Note) << subject;
    EXPECT_THAT(about(version_findings(bare), subject).mend, HasSubstr(mend));
  }
  EXPECT_THAT(about(backend_findings(bare, 0, false), "gloo, hosts").mend, HasSubstr("libgloo-dev"));
  EXPECT_EQ(about(backend_findings(bare, 0, false), "GPUs").verdict, Verdict::Ok);
  EXPECT_EQ(about(backend_findings(bare, 0, true), "GPUs").verdict, Verdict::Note);
  EXPECT_EQ(about(backend_findings(bare, 1, true), "nccl").verdict, Verdict::Ok);
  EXPECT_EQ(about(backend_findings(bare, 2, true), "nccl").verdict, Verdict::Note);
}

// Everything that may be said, in one report.
std::vector<Findings> all_that_may_be_said() {
  Limits limits{.kernel = "4.19.0-21-amd64",
                .open_files = 20,
                .locked_bytes = 8 << 20,
                .file_bytes = 1 << 20,
                .address_bytes = 1 << 30,
                .threads = "1",
                .is_writable = false};
  const Build bare{.version = "1.0", .type = "Dev", .sentencepiece_problem = "this program was built without it"};
  const Memory memory{.total_bytes = size_t{8} << 30,
                      .free_bytes = 1 << 20,
                      .limit_bytes = size_t{1} << 30,
                      .limit = "/sys/fs/cgroup/some/job/of/a/long/name/memory.max",
                      .nodes = 2,
                      .huge_pages = "never"};
  return {{"Machine", findings_of(Processor{.model = "Grün", .cores = 8, .usable = 4, .quota = 2})},
          {"Memory", findings_of(memory)},
          {"Versions", version_findings(bare)},
          {"Backends", backend_findings(bare, 2, true)},
          {"Limits", findings_of(limits, true)}};
}

TEST(DoctorText, KeepsTo80ColumnsAndSumsUp) {
  const std::string text = doctor_text(all_that_may_be_said(), true);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(text, AllOf(HasSubstr("\n  ok       processor        Grün\n"),
                          HasSubstr("\n  problem  open files       20 at a time, per process: too few to start\n"
                                    "                            -> ulimit -n 4096\n"),
                          HasSubstr("4 problems keep fsdp-train from training here; ")));
}

TEST(DoctorText, IsAsciiWhereTheLocaleIsNotUtf8) {
  const std::string text = doctor_text(all_that_may_be_said(), false);
  EXPECT_TRUE(std::ranges::all_of(text, [](unsigned char c) { return c < 128; }));
  EXPECT_THAT(text, HasSubstr("Gr??n"));
}

TEST(DoctorText, EndsWithWhetherItCanTrain) {
  const Finding fine{.subject = "a", .text = "b"};
  const Finding note{.verdict = Verdict::Note, .subject = "a", .text = "b"};
  const Finding problem{.verdict = Verdict::Problem, .subject = "a", .text = "b"};
  EXPECT_EQ(doctor_text({{"T", {fine}}}, true), "T\n  ok       a                b\n\nfsdp-train can train here.\n");
  EXPECT_THAT(doctor_text({{"T", {fine, note}}}, true), EndsWith("fsdp-train can train here; 1 note.\n"));
  EXPECT_THAT(doctor_text({{"T", {problem}}}, true), EndsWith("1 problem keeps fsdp-train from training here.\n"));
  EXPECT_FALSE(has_problem({{"T", {fine, note}}}));
  EXPECT_TRUE(has_problem({{"T", {fine}}, {"U", {problem}}}));
}

}  // namespace
}  // namespace trainer
