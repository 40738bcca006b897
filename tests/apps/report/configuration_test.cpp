#include "report/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainer {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::vector<OptionGroup> kGroups = {
    {.title = "Training", .options = {{"steps", "300"}, {"lr", "0.001"}, {"patience", "0"}}},
    {.title = "Samples", .options = {{"prompt", ""}, {"unknown here", ""}}}};

RunFolder run_with(const std::vector<std::pair<std::string, std::string>>& configuration) {
  RunFolder run{.name = "run"};
  run.configuration = configuration;
  return run;
}

TEST(Configuration, IsInTheGroupsOfTheOptions) {
  const std::string html = configuration_section(
      {run_with({{"parameters", "834304"}, {"lr", "0.01"}, {"steps", "300"}, {"prompt", ""}})}, kGroups);
  const size_t training = html.find("<h3>Training</h3>"), samples = html.find("<h3>Samples</h3>"),
               rest = html.find("<h3>Derived values</h3>");
  EXPECT_LT(training, html.find(">steps<"));
  EXPECT_LT(html.find(">steps<"), html.find(">lr<"));
  EXPECT_LT(html.find(">lr<"), samples);
  EXPECT_LT(samples, html.find(">prompt<"));
  EXPECT_LT(rest, html.find(">parameters<"));
  EXPECT_THAT(html, Not(HasSubstr("unknown here")));
}

TEST(Configuration, MarksWhatIsUnsetAndWhatIsTheDefault) {
  const std::string html = configuration_section(
      {run_with({{"steps", "300"}, {"lr", "0.01"}, {"patience", "null"}, {"prompt", ""}})}, kGroups);
  EXPECT_THAT(html, HasSubstr("<tr class=\"default\"><th scope=\"row\">steps</th><td>300</td></tr>"));
  EXPECT_THAT(html, HasSubstr("<tr><th scope=\"row\">lr</th><td>0.01</td></tr>"));
  EXPECT_THAT(html, HasSubstr("<tr class=\"unset\"><th scope=\"row\">patience</th><td>–</td></tr>"));
  EXPECT_THAT(html, HasSubstr("<div class=\"card group unset\">\n<h3>Samples</h3>"));  // nothing in it has a value
}

TEST(Configuration, MarksWhatDiffersBetweenRuns) {
  const std::string html = configuration_section(
      {run_with({{"lr", "0.001"}, {"prompt", ""}}), run_with({{"lr", "0.01"}, {"prompt", "a"}})}, kGroups);
  EXPECT_THAT(html, HasSubstr("<tr class=\"differs\"><th scope=\"row\">lr</th><td>0.001</td><td>0.01</td></tr>"));
  EXPECT_THAT(html, HasSubstr("<tr class=\"differs\"><th scope=\"row\">prompt</th><td>–</td><td>a</td></tr>"));
  EXPECT_THAT(html, HasSubstr("id=\"only-differences\""));
}

TEST(Configuration, ShowsBlanksAndLines) {
  const std::string html = configuration_section({run_with({{"prompt", "\n"}, {"text", "a\nb"}})}, {});
  EXPECT_THAT(html, HasSubstr("<td>&quot;\\n&quot;</td>"));
  EXPECT_THAT(html, HasSubstr("<td>&quot;a\\nb&quot;</td>"));
}

TEST(Configuration, IsNothingWhereThereIsNone) {
  EXPECT_THAT(configuration_section({run_with({})}, kGroups), IsEmpty());
}

}  // namespace
}  // namespace trainer
