#include "report/page.h"

#include <fsdp/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/report/sample_runs.h"
#include "report/curves.h"
#include "report/text.h"
#include "support/temporary_folder.h"

namespace trainer {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

TEST(Page, HoldsAllOfARun) {
  TemporaryFolder folder;
  const std::string page = report_page({read_run(write_sample_run(folder.path(), "first"))});
  for (const char* part : {"<title>first</title>", "Steps 1 to 300", "<dd>300</dd>", "model.width", "bible.txt",
                           "Let there be light", "checkpoint saved", "class Chart extends Panel {", "best: step"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page, Not(HasSubstr("{{")));
  EXPECT_THAT(page, Not(HasSubstr("differs\"")));
}

TEST(Page, ListsTheCheckpointsThatAreThere) {
  TemporaryFolder folder;
  RunFolder run = read_run(write_sample_run(folder.path(), "first"));
  EXPECT_THAT(report_page({run}), Not(HasSubstr("<h2>Checkpoints</h2>")));
  run.metrics.checkpoints = {{.step = 100, .folder = "step-100", .bytes = 2'000'000, .save_seconds = 0.25},
                             {.step = 100, .folder = "best", .best = true, .bytes = 2'000'000, .save_seconds = 0.25},
                             {.step = 200, .folder = "best", .best = true, .bytes = 2'000'000, .save_seconds = 0.25},
                             {.step = 200, .folder = "step-200<b>", .bytes = -1, .removed = {"step-100"}}};
  const std::string page = report_page({run});
  EXPECT_THAT(page, HasSubstr("<td>best</td><td class=\"number\">step 200</td><td class=\"number\">2.0 MB</td><td "
                              "class=\"number\">saved in 0.25 s</td>"));
  EXPECT_THAT(page, HasSubstr("<td>step-200&lt;b&gt;</td><td class=\"number\">step 200</td><td class=\"number\">0 B"));
  EXPECT_THAT(page, Not(HasSubstr("<td>step-100</td>")));
}

TEST(Page, SaysWhichDataItWas) {
  TemporaryFolder folder;
  RunFolder run = read_run(write_sample_run(folder.path(), "first", {.has_start = true}));
  EXPECT_THAT(report_page({run}), Not(HasSubstr("to validate with")));
  run.metrics.data = {.training_tokens = 9000, .validation_tokens = 1000, .hidden = 2, .unreadable = 1};
  EXPECT_THAT(report_page({run}),
              HasSubstr("9,000 tokens to train on, 1,000 to validate with; 3 entries of its folders skipped"));
}

// Files that a browser would fetch are named by an address, or by an attribute or a rule that takes one.
TEST(Page, NamesNothingOutside) {
  TemporaryFolder folder;
  const std::string page = report_page({read_run(write_sample_run(folder.path(), "first"))});
  for (const char* part : {"://", "@import", " src=", "fetch(", "XMLHttpRequest"})
    EXPECT_THAT(page, Not(HasSubstr(part)));
  EXPECT_THAT(page, HasSubstr("content=\"default-src 'none';"));
}

TEST(Page, TakesNothingForMarkup) {
  TemporaryFolder folder;
  const std::string evil = "</script></pre><script>alert('\"1\"')<!--&";
  const SampleFiles files{.config = json::object({{evil, evil}}).dump(), .sample = evil + "\033[2J\xff", .event = evil};
  const std::string name = "<script>alert(1)<img>{{script}}";
  folder.write(name + "/sample-<script>alert(2).txt", evil);
  const std::string page = report_page(
      {read_run(write_sample_run(folder.path(), name, files)), read_run(write_sample_run(folder.path(), "good"))});
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("</pre><script")));
  EXPECT_THAT(page, Not(HasSubstr("\033")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;img&gt;{{script}}"));
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;&lt;/pre&gt;&lt;script&gt;alert(&#39;&quot;1&quot;&#39;)&lt;!--&amp;"));
}

TEST(Page, ComparesRuns) {
  TemporaryFolder folder;
  const std::string page = report_page(
      {read_run(write_sample_run(folder.path(), "first")),
       read_run(write_sample_run(folder.path(), "second", {.config = R"({"lr": 0.01, "model": {"width": 64}})"}))});
  EXPECT_THAT(page, HasSubstr("<title>first, second</title>"));
  EXPECT_THAT(page, HasSubstr("<tr class=\"differs\"><th scope=\"row\">lr</th><td>0.001</td><td>0.01</td></tr>"));
  EXPECT_THAT(page, HasSubstr("<tr><th scope=\"row\">model.width</th><td>64</td><td>64</td></tr>"));
  EXPECT_THAT(page, HasSubstr("<tr class=\"differs\"><th scope=\"row\">text</th><td>bible.txt</td><td>–</td></tr>"));
}

TEST(Page, OfAMillionStepsIsBelow3Megabytes) {
  EXPECT_LT(report_page({sample_run("long", 1'000'000)}).size(), 1'000'000u);
  const RunFolder shorter = sample_run("shorter", 20'000);
  for (const size_t runs : {2, 6, 8, 30})
    EXPECT_LT(report_page(std::vector<RunFolder>(runs, shorter)).size(), 3'000'000u);
}

TEST(Page, OfAShortOrDivergedRunIsStillOne) {
  RunFolder one{.name = "one"};
  one.metrics.steps = {7};
  EXPECT_THAT(report_page({one}), HasSubstr("Steps 7 to 7"));
  one.metrics.columns["loss"] = {std::nan("")};
  EXPECT_THAT(report_page({one}), HasSubstr("\"series\":{}"));
}

TEST(Curves, AreJsonWithTheNumbersOfTheRun) {
  TemporaryFolder folder;
  const RunFolder run = read_run(write_sample_run(folder.path(), "first"));
  const json found = json::parse(curves_json({run}))["runs"][0];
  ASSERT_EQ(found["step"].size(), 300u);
  EXPECT_EQ(found["step"][41], 42);
  EXPECT_EQ(found["tokens"][41], 42 * 8192);
  EXPECT_NEAR(found["series"]["loss"]["mean"][41], run.metrics.column("loss")[41], 1e-6);  // seven digits are written
  EXPECT_FALSE(found["series"]["loss"].contains("low"));
  EXPECT_EQ(found["series"]["validation_loss"]["step"].size(), 15u);
  EXPECT_EQ(found["series"]["validation_loss"]["step"][0], 20);
  EXPECT_EQ(found["events"][0], json::parse(R"({"step":100,"text":"checkpoint saved"})"));
  EXPECT_EQ(found["memory"].size(), 6u);
}

TEST(Curves, OfAMillionStepsKeepTheirBand) {
  const json found = json::parse(curves_json({sample_run("long", 1'000'000)}))["runs"][0];
  const json& loss = found["series"]["loss"];
  ASSERT_EQ(loss["mean"].size(), 1000u);
  for (size_t i = 0; i < 1000; ++i) {
    EXPECT_LE(loss["low"][i], loss["mean"][i]);
    EXPECT_GE(loss["high"][i], loss["mean"][i]);
  }
}

TEST(Text, OfAPage) {
  EXPECT_EQ(html("a<b>&\"'\x01"), "a&lt;b&gt;&amp;&quot;&#39;\\x01");
  EXPECT_EQ(json_string("a</script>\"\\\n\xff"), "\"a\\u003c/script\\u003e\\\"\\\\\\n\\\\xff\"");
  EXPECT_EQ(json_number(0.1), "0.1");
  EXPECT_EQ(json_number(std::nan("")), "null");
}

TEST(WriteReport, NamesEveryRunThatCannotBeRead) {
  TemporaryFolder folder;
  try {
    write_report({folder / "a", folder / "b"}, folder / "report.html");
    FAIL() << "no error";
  } catch (const fsdp::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a/metrics.jsonl' cannot be read"));
    EXPECT_THAT(error.what(), HasSubstr("b/metrics.jsonl' cannot be read"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "report.html"));
}

TEST(Page, SurvivesAnyNumbers) {
  TemporaryFolder folder;
  folder.write("run/metrics.jsonl",
               "{\"step\":9007199254740992,\"loss\":1e308,\"seconds\":1e308,\"memory_bytes\":1e308,\"tokens\":-1e308,"
               "\"mfu\":1e308,\"step_seconds\":-1e308,\"memory\":{\"</script><script>alert(1)\":1e308}}\n");
  const std::string page = report_page({read_run(folder / "run")});
  EXPECT_THAT(page, HasSubstr("9,007,199,254,740,992"));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
}

TEST(WriteReport, ReplacesALinkAndNotWhatItLeadsTo) {
  TemporaryFolder folder;
  const std::string run = write_sample_run(folder.path(), "run"), precious = folder.write("precious", "text");
  for (const char* name : {"report.html", "report.html.partial"}) {
    std::filesystem::create_symlink(precious, folder / name);
  }
  write_report({run}, folder / "report.html");
  EXPECT_EQ(read_bytes(precious), "text");
  EXPECT_THAT(read_bytes(folder / "report.html"), HasSubstr("<title>run</title>"));
}

TEST(WriteReport, TellsRunsOfOneNameApart) {
  TemporaryFolder folder;
  const std::string a = write_sample_run(folder.path() / "a", "run"), b = write_sample_run(folder.path() / "b", "run");
  write_report({a, b}, folder / "report.html");
  const std::string page = read_bytes(folder / "report.html");
  EXPECT_THAT(page, HasSubstr("</span>" + a + "</th>"));
  EXPECT_THAT(page, HasSubstr("</span>" + b + "</th>"));
}

}  // namespace
}  // namespace trainer
