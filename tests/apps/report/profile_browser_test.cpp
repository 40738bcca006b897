// The page of a profile as a browser shows it, at both widths, in the light and in the dark.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "apps/report/chromium.h"
#include "apps/report/sample_profile.h"
#include "report/profile_page.h"

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class ProfileBrowser : public Chromium {
 protected:
  void SetUp() override {
    Chromium::SetUp();
    if (!IsSkipped()) folder_.write("profile.html", trainer::profile_page(sample_profile()));
  }
};

TEST_F(ProfileBrowser, ShowsAllOfAnyWidthInTheLightAndInTheDark) {
  const std::string page = with_program("profile.html", R"(
    const isDark = matchMedia('(prefers-color-scheme: dark)').matches;
    const count = what => document.querySelectorAll(what).length;
    const out = [...document.querySelectorAll('h1, h2, p, dd, figcaption, td, .bar-name, .bar-result')].filter(one => {
      const box = one.getBoundingClientRect();
      return box.width > 0 && (box.left < 0 || box.right > innerWidth);
    });
    parent.document.title = `${innerWidth} ${isDark ? 'dark' : 'light'}, ${count('#memory-charts .area')} areas, ` +
        `${count('svg.bar[role=img]')} bars, ${document.documentElement.scrollWidth - innerWidth} too wide, ` +
        `out: ${out.map(one => one.textContent)};`;
  )");
  const auto look = [](const char* name) { return fmt::format("{}, 7 areas, 6 bars, 0 too wide, out: ;", name); };
  EXPECT_THAT(titles_of_looks(page),
              ElementsAre(look("1280 light"), look("1280 dark"), look("390 light"), look("390 dark")));
}

// The crosshair has the parts and their sum, which is the peak of the sentence; a drag zooms.
TEST_F(ProfileBrowser, TellsTheMemoryAtAnyTime) {
  const std::string page = visit(with_program("profile.html", R"(
    Element.prototype.setPointerCapture = () => {};
    const plot = document.querySelector('.plot');
    const box = plot.getBoundingClientRect();
    const at = milliseconds => box.left + MARGIN.left + (box.width - MARGIN.left - MARGIN.right) * milliseconds / 290;
    const mouse = (kind, milliseconds) => plot.dispatchEvent(new PointerEvent(
        kind, {clientX: at(milliseconds), clientY: box.top + 50, pointerType: 'mouse', button: 0}));
    mouse('pointermove', 145);
    const text = document.querySelector('.tooltip').textContent;
    mouse('pointerdown', 100);
    mouse('pointermove', 150);
    mouse('pointerup', 150);
    document.title = `${text}; ${document.getElementById('zoom-reset').textContent}`;
  )"));
  EXPECT_THAT(page, Not(HasSubstr("CONSOLE")));
  EXPECT_THAT(page, testing::ContainsRegex("<title>time 1[45][0-9.]* ms.*activations 9.63 MB.*together 28.1 MB"));
  EXPECT_THAT(page, testing::ContainsRegex("time (99|100)[0-9.]* ms to 1[45][0-9.]* ms: show all</title>"));
}

}  // namespace
