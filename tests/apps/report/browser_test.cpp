// The report as a browser shows it: headless Chromium runs the program on the page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/report/chromium.h"
#include "apps/report/sample_runs.h"
#include "report/page.h"

namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Browser : public Chromium {
 protected:
  void SetUp() override {
    Chromium::SetUp();
    if (IsSkipped()) return;
    const auto first = write_sample_run(folder_.path(), "first");
    const auto second =
        write_sample_run(folder_.path(), "<b>second", {.config = R"({"lr": 0.01})", .event = "slow rank 2"});
    trainer::write_report({first}, folder_ / "one.html");
    trainer::write_report({first, second}, folder_ / "two.html");
  }
};

// How many curves there are of more than ten points.
int curves_in(const std::string& page) {
  const std::string beginning = "<path class=\"curve";
  int count = 0;
  for (size_t at = page.find(beginning); at != std::string::npos; at = page.find(beginning, at + 1)) {
    const auto path = page.begin() + static_cast<std::ptrdiff_t>(at);
    if (std::count(path, std::find(path, page.end(), '>'), 'L') > 10) ++count;
  }
  return count;
}

TEST_F(Browser, DrawsEveryCurveWithoutAnErrorAndARequest) {
  const std::string page = visit("one.html");
  EXPECT_THAT(page, Not(HasSubstr("CONSOLE")));
  EXPECT_THAT(requests(), IsEmpty());
  // Loss and validation loss, their second half, norm, lr, tokens/s, step time, MFU, time outside.
  EXPECT_EQ(curves_in(page), 10);
  EXPECT_THAT(page, HasSubstr("class=\"area part-9\""));
  EXPECT_THAT(page, HasSubstr("class=\"event-mark\""));
}

TEST_F(Browser, DrawsTwoRunsIntoTheSamePlots) {
  const std::string page = visit("two.html");
  EXPECT_THAT(page, Not(HasSubstr("CONSOLE")));
  EXPECT_THAT(requests(), IsEmpty());
  EXPECT_EQ(curves_in(page), 20);
  EXPECT_THAT(page, Not(HasSubstr("<b>second")));
}

TEST_F(Browser, ForbidsThePageARequest) {
  const std::string page = with_program("one.html", "fetch('http://127.0.0.1:9/').catch(() => 0);");
  EXPECT_THAT(visit(page), HasSubstr("CONSOLE"));
  EXPECT_THAT(requests(), IsEmpty());
  std::string allowed = read_bytes(folder_ / page);
  allowed.replace(allowed.find("default-src 'none'"), 18, "default-src *     ");
  folder_.write("allowed.html", allowed);
  visit("allowed.html");
  EXPECT_THAT(requests(), testing::ElementsAre("http://127.0.0.1:9/"));  // so that nothing escapes the log
}

TEST_F(Browser, TakesEveryChoice) {
  const std::string page = visit(with_program("two.html", R"(
    for (const axis of ['tokens', 'seconds']) {
      document.getElementById('axis').value = axis;
      document.getElementById('axis').dispatchEvent(new Event('change'));
    }
    for (const button of document.querySelectorAll('.chart button.log')) button.click();
    document.getElementById('smoothing').value = '0';
    document.getElementById('smoothing').dispatchEvent(new Event('input'));
    for (const box of document.querySelectorAll('#outliers, #only-differences, #show-unset')) box.click();
    document.querySelectorAll('#legend input')[1].click();
    const holder = document.querySelector('.plot');
    const place = holder.getBoundingClientRect();
    holder.dispatchEvent(new PointerEvent('pointermove', {clientX: place.left + place.width / 2, clientY: place.top + 50}));
    window.dispatchEvent(new Event('resize'));
    holder.dispatchEvent(new PointerEvent('pointermove', {clientX: place.left + place.width / 2, clientY: place.top + 50}));
    document.title = 'all chosen: ' + document.querySelector('.tooltip').textContent;
  )"));
  EXPECT_THAT(page, Not(HasSubstr("CONSOLE")));
  EXPECT_THAT(page, HasSubstr("<title>all chosen: time 0:2"));
  EXPECT_THAT(page, HasSubstr("first: 1."));
  EXPECT_EQ(curves_in(page), 10);
  EXPECT_THAT(page, Not(HasSubstr("class=\"raw\"")));
  for (const char* nowhere : {"=\"NaN", "NaN,", ",NaN"}) EXPECT_THAT(page, Not(HasSubstr(nowhere)));
  EXPECT_THAT(page, HasSubstr("id=\"settings\" class=\"several only-differences\""));
}

// Moves over the first chart and drags, as a mouse would. A pointer that is none cannot be captured.
const std::string kMouse = R"(
    Element.prototype.setPointerCapture = () => {};
    const plot = document.querySelector('.plot');
    const box = plot.getBoundingClientRect();
    const mouse = (kind, share) => plot.dispatchEvent(new PointerEvent(
        kind, {clientX: box.left + share * box.width, clientY: box.top + 50, pointerType: 'mouse', button: 0}));
)";

TEST_F(Browser, ShowsTheCrosshairInEveryChart) {
  const std::string page = visit(with_program("one.html", kMouse + R"(
    mouse('pointermove', 0.75);
    const without = [...document.querySelectorAll('.chart')].filter(chart => !chart.querySelector('.cursor line'));
    document.title = `${document.querySelectorAll('.chart').length} charts, ${without.length} without`;
  )"));
  EXPECT_THAT(page, Not(HasSubstr("CONSOLE")));
  EXPECT_THAT(page, HasSubstr("<title>9 charts, 0 without"));
}

TEST_F(Browser, LabelsBothEndsOfEveryAxis) {
  const std::string page = visit(with_program("one.html", R"(
    const ends = [...document.querySelectorAll('.chart')].map(chart => {
      const of = anchor => [...chart.querySelectorAll(`svg > text[text-anchor=${anchor}]`)];
      const [steps, values] = [of('middle'), of('end')];
      const heights = values.map(text => Number(text.getAttribute('y')));
      return `${steps[0].textContent}-${steps.at(-1).textContent} ${Math.max(...heights)} ${Math.min(...heights)}`;
    });
    document.title = ends.join(', ');
  )"));
  EXPECT_THAT(page, Not(HasSubstr("CONSOLE")));
  const std::string whole = "1-300 226 14";
  EXPECT_THAT(page, HasSubstr("<title>" + whole + ", 151-300 226 14, " + whole + ", " + whole));
}

TEST_F(Browser, LabelsBothEndsOfLogarithmicAndZoomedAxes) {
  const std::string page = visit(with_program("one.html", R"(
    const spans = [[0.37, 41], [2, 2.1], [1e-7, 3e4], [0.9999, 1.0001]];
    const scales = spans.flatMap(span => [verticalScale(span, true), verticalScale(span, false)]);
    const isWrong = (scale, i) => {
      const [low, high] = spans[Math.floor(i / 2)];
      const ticks = withEnds((scale.log ? logTicks : linearTicks)(scale.low, scale.high, 7), scale, 14);
      const places = ticks.map(scale.place);
      const areApart = places.every((place, at) => at === 0 || places[at - 1] - place >= 13.9);
      return scale.low > low * 1.001 || scale.high < high * 0.999 || ticks.length < 2 || !areApart;
    };
    document.title = `${scales.length} axes, wrong: ${scales.filter(isWrong).map(scale => JSON.stringify(scale))}`;
  )"));
  EXPECT_THAT(page, Not(HasSubstr("CONSOLE")));
  EXPECT_THAT(page, HasSubstr("<title>8 axes, wrong: </title>"));
  const std::string zoomed = visit("one.html#zoom=100.4,200.2");
  EXPECT_THAT(zoomed, HasSubstr(">100</text>"));
  EXPECT_THAT(zoomed, HasSubstr(">200</text>"));
}

TEST_F(Browser, ZoomsAllChartsByDragging) {
  const std::string page = visit(with_program("one.html", kMouse + R"(
    const places = () => [...document.querySelectorAll('#charts .curve')].map(curve => curve.getAttribute('d')).join();
    const before = places();
    mouse('pointerdown', 0.5);
    mouse('pointermove', 0.6);
    mouse('pointermove', 0.75);
    mouse('pointerup', 0.75);
    const zoomed = document.getElementById('zoom-reset').textContent;
    const isOther = places() !== before;
    const address = location.hash;
    plot.dispatchEvent(new MouseEvent('dblclick'));
    document.title = `${zoomed}; ${isOther}; ${address}; ${places() === before}; ${location.hash}`;
  )"));
  EXPECT_THAT(page, Not(HasSubstr("CONSOLE")));
  EXPECT_THAT(page, testing::ContainsRegex(
                        "<title>step 1[0-9]+ to 2[0-9]+: show all; true; #zoom=1[0-9.]+,2[0-9.]+; true; </title>"));
}

TEST_F(Browser, TakesChoicesFromTheAddress) {
  const std::string page = visit("two.html#axis=tokens&log=loss&hidden=1&zoom=100000,200000");
  EXPECT_THAT(page, Not(HasSubstr("CONSOLE")));
  EXPECT_THAT(page, HasSubstr("tokens 100k to 200k: show all"));
  EXPECT_THAT(page, HasSubstr("aria-pressed=\"true\""));
  EXPECT_EQ(curves_in(page), 10);
  EXPECT_THAT(visit("one.html#axis=nothing&zoom=b,a&log=%00&smoothing=9&hidden=-1"), Not(HasSubstr("CONSOLE")));
}

// The virtual clock runs on while another thread encodes the PNG, so its budget is a million polls. Once the file is
// there, no timer is left, and the clock jumps to its end.
TEST_F(Browser, SavesAChartAsTableAndAsPictures) {
  const std::string page = visit(with_program("one.html", R"(
    const saved = {};
    URL.createObjectURL = blob => { saved.blob = blob; return 'data:,'; };
    HTMLAnchorElement.prototype.click = function() { saved.name = this.download; };
    const press = kind => document.querySelector(`.chart button[data-kind=${kind}]`).click();
    (async () => {
      press('CSV');
      const [heads, first] = (await saved.blob.text()).split('\n');
      const table = saved.name;
      press('SVG');
      const picture = new DOMParser().parseFromString(await saved.blob.text(), 'image/svg+xml');
      const curves = [...picture.querySelectorAll('path')].filter(path => path.getAttribute('stroke') !== 'none');
      press('PNG');
      while (!saved.name.endsWith('.png')) await new Promise(done => setTimeout(done, 5));
      document.title = `${table}: ${heads}; ${first.slice(0, 12)}; ${picture.documentElement.tagName} ` +
          `${curves.length > 1} ${/class=/.test(new XMLSerializer().serializeToString(picture))}; ${saved.blob.type}`;
    })();
  )"),
                                 "--window-size=1280,2400 --virtual-time-budget=5000000");
  EXPECT_THAT(page, Not(HasSubstr("CONSOLE")));
  EXPECT_THAT(page,
              HasSubstr("<title>first-loss.csv: run,series,step,mean,lowest,highest; first,loss,1; svg true false; "
                        "image/png</title>"));
}

// The second time the reader selects text, and is left in peace.
TEST_F(Browser, LoadsThePageOfALiveRunAgain) {
  const auto run = trainer::read_run(folder_ / "first");
  for (const int seconds : {0, 1}) {
    folder_.write("live.html", trainer::report_page({run}, {.reload_seconds = seconds}));
    const std::string page = visit(with_program("live.html", R"(
      window.name = String(Number(window.name || 0) + 1);
      document.title = `loaded ${window.name}`;
      if (window.name === '2') getSelection().selectAllChildren(document.querySelector('h1'));
    )"),
                                   "--window-size=1280,2400 --virtual-time-budget=5000");
    EXPECT_THAT(page, HasSubstr(seconds == 0 ? "<title>loaded 1</title>" : "<title>loaded 2</title>"));
  }
}

}  // namespace
