#include "fsdp-plan/search_page.h"

#include <fmt/format.h>

#include "fsdp-plan/plan_page.h"
#include "fsdp-plan/search_sentences.h"
#include "report/card.h"
#include "report/text.h"

namespace planner {

namespace {

using trainer::SearchResult;
using trainer::TriedSetting;

std::string tried_card(const TriedSetting& setting, const std::string& sentence) {
  return trainer::facts_card(
      {}, setting.options,
      fmt::format("<h3>{}</h3>\n<p>{}</p>\n", trainer::html(setting.name), trainer::html(sentence)));
}

std::string group(const std::string& title, const std::string& cards) {
  if (cards.empty()) return "";
  return fmt::format("<section>\n<h2>{}</h2>\n<div class=\"side-by-side\">\n{}</div>\n</section>\n", title, cards);
}

std::string words_of(const SearchArguments& arguments, const SearchResult& result) {
  std::string best, others, too_large;
  for (const TriedSetting& tried : result.fitting) {
    const TriedSetting& first = result.fitting.front();
    if (&tried == &first) {
      best = tried_card(tried, best_sentence(arguments, tried));
    } else {
      others += tried_card(tried, trainer::why_worse(tried, first, arguments.wish.goal));
    }
  }
  for (const TriedSetting& tried : result.too_large) too_large += tried_card(tried, size_sentence(arguments, tried));
  return fmt::format("<p>{}</p>\n", trainer::html(search_sentence(arguments, result))) +
         group(fmt::format("The {}", best_word(arguments)), best) + group("Runners-up", others) +
         group("Too large", too_large);
}

}  // namespace

std::string search_page(const SearchArguments& arguments, const SearchResult& result, const std::string& json) {
  const trainer::RunOptions& options = arguments.plan.options;
  const bool has_strategy = options.chosen.flags.contains("--strategy");
  PlanPage page{.kind = fmt::format("The {} setting for {}", best_word(arguments), arguments.plan.model),
                .strategy = has_strategy ? options.strategy : "all strategies",
                .words = words_of(arguments, result),
                .json = json};
  for (const std::vector<TriedSetting>* settings : {&result.fitting, &result.too_large}) {
    for (const TriedSetting& tried : *settings) page.rows.push_back({tried.name, tried.numbers});
  }
  return plan_page(arguments.plan, page);
}

}  // namespace planner
