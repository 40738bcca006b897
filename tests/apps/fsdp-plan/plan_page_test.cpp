// The page of fsdp-plan --html.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <regex>
#include <set>

#include "apps/fsdp-plan/run_plan.h"
#include "fsdp-plan/model_plan.h"
#include "fsdp-plan/search_text.h"
#include "support/temporary_folder.h"

namespace planner {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Words = std::vector<std::string>;
using MakePlan = ModelPlan (*)(const Words&, size_t);

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string page_of(MakePlan make, const Words& words) {
  const ModelPlan plan = make(joined(words, {"--html", "plan.html"}), 80);
  EXPECT_THAT(plan.problems, IsEmpty());
  EXPECT_EQ(plan.page_file, "plan.html");
  return plan.page;
}

std::string json_of(MakePlan make, const Words& words) { return make(joined(words, {"--json"}), 80).text; }

std::string without_entities(std::string text) {
  const std::pair<const char*, const char*> entities[] = {
      {"&quot;", "\""}, {"&#39;", "'"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}};
  for (const auto& [entity, character] : entities) text = std::regex_replace(text, std::regex(entity), character);
  return text;
}

// Of the elements `data`, as they stand there.
std::multiset<std::string> values_in(const std::string& page) {
  const std::regex value("<data value=\"([^\"]*)\">");
  std::multiset<std::string> values;
  for (auto at = std::sregex_iterator(page.begin(), page.end(), value); at != std::sregex_iterator(); ++at)
    values.insert((*at)[1]);
  return values;
}

void add_values(const json& plan, std::multiset<std::string>& values) {
  for (const char* topic : {"memory", "communication", "time"}) {
    for (const auto& [name, number] : plan.at(topic).items()) values.insert(number.dump());
  }
}

// The object of --json, from the folded part of the page.
std::string json_in(const std::string& page) {
  const std::string begin = "id=\"json\">";
  const size_t at = page.find(begin) + begin.size();
  return without_entities(page.substr(at, page.find("</pre>", at) - at));
}

const Words kModel = {"llama3-8b", "--ranks", "16", "--param-dtype", "bf16", "--batch", "1"};

TEST(PlanPage, HasTheNumbersOfThePlan) {
  const std::string page = page_of(plan_model, kModel), printed = json_of(plan_model, kModel);
  EXPECT_EQ(json_in(page), printed);
  std::multiset<std::string> expected;
  add_values(json::parse(printed), expected);
  EXPECT_EQ(values_in(page), expected);
  EXPECT_EQ(expected.size(), 14u);
}

TEST(PlanPage, HasTheNumbersOfAllRows) {
  const std::pair<MakePlan, Words> kinds[] = {{plan_model, joined(kModel, {"--strategy", "all"})},
                                              {compare_plans, kModel}};
  for (const auto& [make, words] : kinds) {
    const std::string page = page_of(make, words), printed = json_of(make, words);
    EXPECT_EQ(json_in(page), printed);
    std::multiset<std::string> expected;
    const json plans = json::parse(printed);
    for (const auto& [name, plan] : plans.items()) {
      add_values(plan, expected);
      EXPECT_THAT(page, HasSubstr("<th scope=\"row\">" + name + "</th>"));
      EXPECT_THAT(page, HasSubstr("<div class=\"bar-name\">" + name + "</div>"));
    }
    EXPECT_EQ(values_in(page), expected);
  }
}

TEST(PlanPage, HasAllSettingsOfASearchAndTheReasons) {
  const std::string page = page_of(search_plan, kModel), printed = json_of(search_plan, kModel);
  EXPECT_EQ(json_in(page), printed);
  const std::multiset<std::string> values = values_in(page);
  std::multiset<std::string> all;
  const json result = json::parse(printed);
  for (const char* kind : {"fitting", "too_large"}) {
    for (const json& setting : result.at(kind)) add_values(setting.at("plan"), all);
  }
  for (const std::string& value : all) EXPECT_GE(values.count(value), all.count(value)) << value;
  for (size_t i = 1; i < 6; ++i) EXPECT_GT(result.at("fitting").size(), i);
  const std::regex reason("(\\d+\\.\\d % slower: |As fast, )[^<]+\\.</p>");
  EXPECT_EQ(std::distance(std::sregex_iterator(page.begin(), page.end(), reason), std::sregex_iterator()), 5);
  EXPECT_THAT(page, AllOf(HasSubstr("<h2>The fastest</h2>"), HasSubstr("<h2>Runners-up</h2>")));
}

TEST(PlanPage, HasTheCheapestSettingOfSeveralNumbersOfRanks) {
  const std::string page = page_of(search_plan, {"gpt2", "--ranks", "2,4", "--batch", "2", "--for=money", "--tokens",
                                                 "1B", "--strategy", "full-shard"});
  EXPECT_THAT(page, AllOf(HasSubstr("<h1>The cheapest setting for gpt2</h1>"), HasSubstr("<h2>The cheapest</h2>"),
                          HasSubstr("2 or 4 ranks of h100, full-shard"), HasSubstr(" device hours.")));
  EXPECT_THAT(page, AllOf(HasSubstr("<span>--ranks</span> <span>2,4</span>"), HasSubstr("<span>--for=money</span>")));
}

TEST(PlanPage, SaysWhatStillFits) {
  const std::string page = page_of(plan_model, kModel);
  const json limits = json::parse(json_of(plan_model, kModel)).at("limits");
  EXPECT_THAT(page, AllOf(HasSubstr("<h2>Limits</h2>"),
                          HasSubstr(fmt::format("<dt>fewest ranks</dt><dd>{} <small>",
                                                limits.at("cheapest").at("ranks").get<int64_t>()))));
  EXPECT_THAT(page_of(search_plan, kModel), Not(HasSubstr("Limits")));
}

TEST(PlanPage, SaysTheSettingInWords) {
  const std::string page =
      page_of(plan_model, joined(kModel, {"--micro-batches", "4", "--activation-checkpoint", "all"}));
  for (const char* words : {"<h1>Plan of llama3-8b</h1>",
                            "16 ranks on 2 hosts of h100, full-shard, bf16, 4 sequences of 8,192 tokens per rank",
                            "parameters bf16, reductions fp32", "<dd>8,030,261,248</dd>", "<dd>32 of 32 layers</dd>",
                            "524,288 tokens in all", "in 4 micro-batches of 1", "a device has 84.9 GB",
                            "<span>--html</span> <span>plan.html</span>"})
    EXPECT_THAT(page, HasSubstr(words));
  EXPECT_THAT(page_of(plan_model, {"gpt2-xl", "--ranks", "8", "--shard-group-size", "4"}),
              HasSubstr("<dd>full-shard over 4</dd>"));
}

TEST(PlanPage, SaysIfAPlanFits) {
  EXPECT_THAT(page_of(plan_model, kModel), AllOf(HasSubstr(">fits</span>"), Not(HasSubstr(">too large</span>"))));
  const std::string page = page_of(plan_model, joined(kModel, {"--memory", "20GB"}));
  EXPECT_THAT(page, AllOf(HasSubstr(">too large</span>"), HasSubstr("does not fit into 20.0 GB"),
                          Not(HasSubstr(">fits</span>"))));
  EXPECT_THAT(page_of(plan_model, joined(kModel, {"--strategy", "all", "--memory", "20GB"})),
              HasSubstr("<p>0 of 6 fit into 20.0 GB.</p>"));
}

TEST(PlanPage, SaysWhichTimesAreNotKnown) {
  EXPECT_THAT(page_of(plan_model, joined(kModel, {"--cpu-offload"})),
              AllOf(HasSubstr("Not known: there is no schedule of libfsdp"), HasSubstr("<span>–</span>")));
}

TEST(PlanPage, SaysHowRanksFormAMesh) {
  const std::string page = page_of(
      plan_model, {"llama2-7b", "--ranks", "8", "--tensor-parallel", "8", "--batch", "1", "--param-dtype", "bf16"});
  EXPECT_THAT(page, HasSubstr("<dd>1 x 1 x 8 ranks (data x pipeline x tensor)"));
}

// The bar is as long as the peak; beyond it are parts of other times.
TEST(PlanPage, DrawsGradientsThatComeLaterFaint) {
  EXPECT_THAT(page_of(plan_model, kModel), Not(HasSubstr(" faint\"")));
  EXPECT_THAT(page_of(plan_model, joined(kModel, {"--engine", "fsdp2"})),
              AllOf(HasSubstr("\"area part-6 faint\""), Not(HasSubstr("\"area part-7 faint\""))));
}

TEST(PlanPage, DrawsShardsFaintThatAreOnTheHost) {
  const std::string page = page_of(plan_model, joined(kModel, {"--cpu-offload"}));
  for (const char* part : {"2", "3", "4"}) {
    EXPECT_THAT(page, HasSubstr(fmt::format("\"area part-{} faint\"", part)));
    EXPECT_THAT(page, Not(HasSubstr(fmt::format("\"area part-{}\"", part))));
  }
}

TEST(PlanPage, TakesNothingForMarkup) {
  const TemporaryFolder folder;
  const std::string name = "<script>alert(1)<img>'\"&{{main}}.json";
  const std::string file = folder.write(name, R"({"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024,
      "n_embd": 768, "n_layer": 12, "n_head": 12})");
  const std::string page = page_of(plan_model, {file});
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<script>alert")), Not(HasSubstr("<img"))));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;img&gt;&#39;&quot;&amp;{{main}}.json"));
}

TEST(PlanPage, NamesNothingOutside) {
  for (const std::string& page : {page_of(plan_model, kModel), page_of(search_plan, kModel)}) {
    for (const char* part : {"://", "@import", " src=", "fetch(", "XMLHttpRequest", "url("})
      EXPECT_THAT(page, Not(HasSubstr(part)));
    EXPECT_THAT(page, HasSubstr("content=\"default-src 'none';"));
  }
}

TEST(PlanPage, IsWrittenBesideTheText) {
  const TemporaryFolder folder;
  const std::string file = folder / "plan.html", plan = "gpt2-xl --ranks 8";
  for (const std::string& arguments :
       {plan, plan + " --json", "search " + plan, "compare " + plan, plan + " --strategy all"}) {
    const Ending with = run_plan(arguments + " --html " + file);
    EXPECT_EQ(with.code, 0) << with.output;
    EXPECT_EQ(with.output, run_plan(arguments).output);
    EXPECT_THAT(read_bytes(file), AllOf(HasSubstr("<title>"), HasSubstr("</html>\n")));
    std::filesystem::remove(file);
  }
}

TEST(PlanPage, SaysWhyItIsNotWritten) {
  const TemporaryFolder folder;
  const Ending nowhere = run_plan("gpt2 --html " + (folder / "none/plan.html"));
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_THAT(nowhere.output, AllOf(HasSubstr("none/plan.html"), HasSubstr("No such file or directory")));
  EXPECT_THAT(run_plan("gpt2 --html").output, HasSubstr("--html needs a value."));
  EXPECT_THAT(run_plan("gpt2 --html=").output, HasSubstr("--html is ''; it must be the name of a file."));
  const Ending wrong = run_plan("gpt2 --ranks 0 --html " + (folder / "plan.html"));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder / "plan.html"));
}

}  // namespace
}  // namespace planner
