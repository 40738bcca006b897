// A plan's page as a browser shows it, at both widths, in the light and in the dark.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "apps/report/chromium.h"
#include "fsdp-plan/model_plan.h"
#include "fsdp-plan/search_text.h"

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The width, the scheme, bars, and words that leave the page: an error is a title of other words.
const std::string kMeasure = R"(
  const isDark = matchMedia('(prefers-color-scheme: dark)').matches;
  const light = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number).reduce((a, b) => a + b);
  const isOut = element => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && (box.left < 0 || box.right > innerWidth);
  };
  const out = [...document.querySelectorAll('h1, h2, p, dd, figcaption, .bar text, .bar-name, .bar-result')].filter(isOut);
  const bars = document.querySelectorAll('svg.bar[role=img]');
  const flat = [...document.querySelectorAll('rect.area')].filter(one => one.getBoundingClientRect().height < 20);
  parent.document.title = `${innerWidth} ${isDark === light < 200} ${isDark ? 'dark' : 'light'}, ${bars.length} bars, ` +
      `${flat.length} flat, ${document.documentElement.scrollWidth - innerWidth} too wide, ` +
      `out: ${out.map(one => one.textContent)}`;
)";

class PlanBrowser : public Chromium {
 protected:
  void write(const planner::ModelPlan& plan) const {
    EXPECT_THAT(plan.problems, IsEmpty());
    folder_.write("plan.html", plan.page);
  }

  void expect_shown(int bars) const {
    const auto look = [bars](const char* name) {
      return fmt::format("{}, {} bars, 0 flat, 0 too wide, out: ", name, bars);
    };
    EXPECT_THAT(
        titles_of_looks(with_program("plan.html", kMeasure)),
        ElementsAre(look("1280 true light"), look("1280 true dark"), look("390 true light"), look("390 true dark")));
  }
};

TEST_F(PlanBrowser, ShowsAPlan) {
  write(planner::plan_model({"gpt2-xl", "--ranks", "8", "--param-dtype", "bf16", "--html", "plan.html"}, 80));
  expect_shown(3);
}

// One is far beyond the limit, and is cut.
TEST_F(PlanBrowser, ShowsStrategies) {
  write(planner::plan_model({"llama2-70b", "--ranks", "256", "--strategy", "all", "--html", "plan.html"}, 80));
  expect_shown(3 * 6);
}

TEST_F(PlanBrowser, ShowsASearch) {
  write(planner::search_plan({"llama3-8b", "--ranks", "64", "--param-dtype", "bf16", "--html", "plan.html"}, 80));
  expect_shown(3 * 9);
}

TEST_F(PlanBrowser, ForbidsThePageARequest) {
  write(planner::plan_model({"gpt2", "--html", "plan.html"}, 80));
  EXPECT_THAT(visit(with_program("plan.html", "fetch('http://127.0.0.1:9/').catch(() => 0);")), HasSubstr("CONSOLE"));
  EXPECT_THAT(requests(), IsEmpty());
}

TEST_F(PlanBrowser, CopiesTheCommand) {
  write(planner::plan_model({"gpt2", "--html", "a plan.html"}, 80));
  const std::string page = visit(with_program("plan.html", R"(
    document.querySelector('button.copy').click();
    document.title = String(getSelection());
  )"));
  EXPECT_EQ(title_in(page), "fsdp-plan gpt2 --html 'a plan.html'");
}

}  // namespace
