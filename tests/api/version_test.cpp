// The version is the same in the header, in CMake, and in the files of packages that cannot read the header.
#include <fsdp/version.h>
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>
#include <string>

namespace fsdp {
namespace {

using ::testing::HasSubstr;

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(FSDP_SOURCE "/" + path).rdbuf();
  return text.str();
}

// The preprocessor compares versions.
#if FSDP_VERSION < 100 || FSDP_VERSION >= (FSDP_VERSION_MAJOR + 1) * 10000
#error "FSDP_VERSION is not the number of its parts"
#endif

TEST(Version, IsThatOfCMake) { EXPECT_STREQ(FSDP_VERSION_STRING, FSDP_VERSION_OF_CMAKE); }

TEST(Version, AsANumberHasTwoDigitsForMinorAndPatch) {
  EXPECT_EQ(FSDP_VERSION / 10000, FSDP_VERSION_MAJOR);
  EXPECT_EQ(FSDP_VERSION / 100 % 100, FSDP_VERSION_MINOR);
  EXPECT_EQ(FSDP_VERSION % 100, FSDP_VERSION_PATCH);
}

TEST(Version, ComesWithTheHeaderThatBringsAll) {
  EXPECT_THAT(text_of("include/fsdp/fsdp.h"), HasSubstr("#include \"fsdp/version.h\"\n"));
}

TEST(Version, IsThatOfThePort) {
  EXPECT_THAT(text_of("packaging/vcpkg/ports/libfsdp/vcpkg.json"),
              HasSubstr("\"version-semver\": \"" FSDP_VERSION_STRING "\""));
}

TEST(Version, IsThatOfTheExamplesOfThePage) {
  const std::string page = text_of("docs/install.md");
  EXPECT_THAT(page, HasSubstr("`libfsdp/" FSDP_VERSION_STRING "`"));
  EXPECT_THAT(page, HasSubstr("fsdp-train-" FSDP_VERSION_STRING "-linux"));
  EXPECT_THAT(page, HasSubstr("fsdp-train_" FSDP_VERSION_STRING "_"));
}

}  // namespace
}  // namespace fsdp
