#include "report/bars.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "report/bar_scale.h"

namespace trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string metres(double value) { return fmt::format("{:.1f} m", value); }

BarChart chart_of(std::vector<Bar> bars) { return {.title = "Heights", .format = metres, .bars = std::move(bars)}; }

TEST(Bars, AreAsLongAsTheirValues) {
  const std::string page =
      bar_chart(chart_of({{.name = "a", .parts = {{"stem", 0, 20}, {"crown", 1, 30}}, .result = "50 m"},
                          {.name = "b", .parts = {{"stem", 0, 10}}, .result = "10 m"}}));
  EXPECT_THAT(page, HasSubstr("<rect class=\"area part-0\" x=\"0.000%\" width=\"40.000%\""));
  EXPECT_THAT(page, HasSubstr("<rect class=\"area part-1\" x=\"40.000%\" width=\"60.000%\""));
  EXPECT_THAT(page, HasSubstr("<rect class=\"area part-0\" x=\"0.000%\" width=\"20.000%\""));
  EXPECT_THAT(page, HasSubstr("<title>crown 30.0 m</title>"));
  EXPECT_THAT(page, HasSubstr("aria-label=\"a: 50 m, stem 20.0 m, crown 30.0 m\""));
  EXPECT_THAT(page, HasSubstr("text-anchor=\"end\">50 m</text>"));
  EXPECT_THAT(page, Not(HasSubstr("class=\"cut\"")));
  EXPECT_THAT(page, Not(HasSubstr("single")));
}

TEST(BarScale, EndsAtATick) {
  for (const double value : {0.37, 1.0, 99.9, 100.0, 100.1, 2.6e12, 4.1e-3}) {
    const BarScale scale = scale_up_to(value);
    const double steps = scale.high / scale.step;
    EXPECT_GE(scale.high, value * (1 - 1e-9));
    EXPECT_LT(scale.high - scale.step, value);
    EXPECT_NEAR(steps, std::round(steps), 1e-9);
    EXPECT_THAT(steps, testing::AllOf(testing::Gt(1.9), testing::Lt(5.1))) << value;
  }
}

TEST(BarScale, LeavesOutZeros) {
  const std::pair<const char*, const char*> texts[] = {{"20.0 GB", "20 GB"}, {"1.50 s", "1.5 s"},  {"2.00 s", "2 s"},
                                                       {"0.25 s", "0.25 s"}, {"100 ms", "100 ms"}, {"3.0", "3"}};
  for (const auto& [text, shorter] : texts) EXPECT_EQ(without_zeros(text), shorter);
}

TEST(Bars, ShowTheLimitAndCutWhatIsFarBeyond) {
  BarChart chart =
      chart_of({{.name = "low", .parts = {{"stem", 0, 40}}}, {.name = "high", .parts = {{"stem", 0, 4000}}}});
  chart.limit = 80;
  chart.limit_name = "the ceiling";
  const std::string page = bar_chart(chart);
  EXPECT_THAT(page, HasSubstr("<line class=\"limit\" x1=\"40.000%\" x2=\"40.000%\""));
  EXPECT_THAT(page, HasSubstr(">the ceiling</text>"));
  EXPECT_THAT(page, HasSubstr("x=\"0.000%\" width=\"20.000%\""));
  EXPECT_THAT(page, HasSubstr("x=\"0.000%\" width=\"100.000%\""));
  EXPECT_THAT(page, HasSubstr("class=\"cut\""));
  EXPECT_THAT(page, HasSubstr("bars beyond 200 m are cut"));
}

TEST(Bars, AreFaintBeyondThePeak) {
  const std::string page =
      bar_chart(chart_of({{.name = "a", .parts = {{"stem", 0, 30}, {"crown", 1, 70}}, .counted = 50}}));
  EXPECT_THAT(page, HasSubstr("\"area part-0\" x=\"0.000%\" width=\"30.000%\""));
  EXPECT_THAT(page, HasSubstr("\"area part-1\" x=\"30.000%\" width=\"20.000%\""));
  EXPECT_THAT(page, HasSubstr("\"area part-1 faint\" x=\"50.000%\" width=\"50.000%\""));
}

TEST(Bars, OfOneHaveTheirValuesInTheKey) {
  const std::string page = bar_chart(chart_of({{.name = "a", .parts = {{"stem", 0, 30}, {"crown", 1, 0}}}}));
  EXPECT_THAT(page, HasSubstr("chart bars single"));
  EXPECT_THAT(page, HasSubstr("<span class=\"swatch part-0\"></span>stem 30.0 m</span>"));
  EXPECT_THAT(page, Not(HasSubstr("crown")));
}

TEST(Bars, TakeNothingForMarkup) {
  BarChart chart = chart_of({{.name = "<i>\"", .parts = {{"<u>'", 0, 1}}, .result = "<s>"}});
  chart.title = "<b>";
  chart.note = "<em>";
  const std::string page = bar_chart(chart);
  for (const char* markup : {"<i>", "<u>", "<s>", "<b>", "<em>"}) EXPECT_THAT(page, Not(HasSubstr(markup)));
  EXPECT_THAT(page, HasSubstr("aria-label=\"&lt;i&gt;&quot;: &lt;s&gt;, &lt;u&gt;&#39; 1.0 m\""));
}

TEST(Bars, OfNothingAreStillAPicture) {
  for (const double value : {0.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    const std::string page = bar_chart(chart_of({{.name = "a", .parts = {{"stem", 0, value}}}}));
    for (const char* nowhere : {"=\"nan", "=\"inf", "x=\"-", "width=\"-"})
      EXPECT_THAT(page, Not(HasSubstr(nowhere))) << value;
  }
}

}  // namespace
}  // namespace trainer
