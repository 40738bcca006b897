#include "report/bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "report/bar_scale.h"
#include "report/text.h"

namespace trainer {

namespace {

constexpr double kTimesLimit = 2.5, kHeight = 22;

double length_of(const Bar& bar) {
  double sum = 0;
  for (const BarPart& part : bar.parts) sum += part.value;
  return sum;
}

BarScale scale_of(const BarChart& chart) {
  double high = chart.limit.value_or(0);
  for (const Bar& bar : chart.bars) high = std::max(high, length_of(bar));
  return scale_up_to(chart.limit ? std::min(high, kTimesLimit * *chart.limit) : high);
}

// A text at its place. Within `room` of an end, a share of the width, it begins or ends there.
std::string text_at(const BarScale& scale, double value, double y, double room, const std::string& text) {
  const double share = value / scale.high;
  const char* anchor = share < room ? "start" : share > 1 - room ? "end" : "middle";
  return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>", scale.place(value), y, anchor, html(text));
}

std::string vertical_line(const BarScale& scale, const char* kind, double value, double from, double to) {
  const std::string x = scale.place(value);
  return fmt::format("<line class=\"{}\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", kind, x, x, from, to);
}

std::string piece(const BarScale& scale, const BarPart& part, std::pair<double, double> ends, bool is_faint,
                  const std::string& words) {
  const double begin = std::min(ends.first, scale.high), end = std::min(ends.second, scale.high);
  if (!(end > begin)) return "";
  return fmt::format(
      "<rect class=\"area part-{}{}\" x=\"{}\" width=\"{}\" y=\"0\" height=\"{}\"><title>{}</title></rect>",
      part.colour, is_faint ? " faint" : "", scale.place(begin), scale.place(end - begin), kHeight, html(words));
}

std::string pieces_of(const BarChart& chart, const BarScale& scale, const Bar& bar) {
  std::string pieces;
  double begin = 0;
  for (const BarPart& part : bar.parts) {
    const double end = begin + part.value, middle = std::clamp(bar.counted, begin, end);
    const std::string words = fmt::format("{} {}", part.name, chart.format(part.value));
    pieces += piece(scale, part, {begin, middle}, false, words) + piece(scale, part, {middle, end}, true, words);
    begin = end;
  }
  return pieces;
}

std::string words_of_bar(const BarChart& chart, const Bar& bar) {
  std::string words = fmt::format("{}: {}", bar.name, bar.result);
  for (const BarPart& part : bar.parts) {
    if (part.value > 0) words += fmt::format(", {} {}", part.name, chart.format(part.value));
  }
  return words;
}

std::string row(const std::string& name, const std::string& picture, const std::string& result) {
  return fmt::format(
      "<div class=\"bar-row\"><div class=\"bar-name\">{}</div>{}<div class=\"bar-result\">{}</div></div>\n", name,
      picture, result);
}

std::string bar_row(const BarChart& chart, const BarScale& scale, const Bar& bar) {
  constexpr double kBeyond = 5;  // pixels, above and below the bar
  std::string picture = fmt::format("<svg class=\"bar\" height=\"{}\" role=\"img\" aria-label=\"{}\">", kHeight,
                                    html(words_of_bar(chart, bar)));
  for (double tick = 0; tick <= scale.high * (1 + 1e-9); tick += scale.step)
    picture += vertical_line(scale, "grid", tick, -kBeyond, kHeight + kBeyond);
  picture += pieces_of(chart, scale, bar);
  if (scale.cuts(length_of(bar)))
    picture += fmt::format(
        "<svg x=\"100%\" class=\"bar\"><path class=\"cut\" d=\"M-16,{0}l8,-{0}M-10,{0}l8,-{0}\"/></svg>", kHeight);
  if (chart.limit) picture += vertical_line(scale, "limit", *chart.limit, -kBeyond, kHeight + kBeyond);
  return row(html(bar.name), picture + "</svg>", fmt::format("<span>{}</span>{}", html(bar.result), bar.label));
}

std::string limit_row(const BarChart& chart, const BarScale& scale) {
  if (!chart.limit) return "";
  return row("",
             fmt::format("<svg class=\"bar limit-name\" height=\"18\" aria-hidden=\"true\">{}</svg>",
                         text_at(scale, *chart.limit, 11, /*room=*/0.25, chart.limit_name)),
             "");
}

std::string tick_row(const BarChart& chart, const BarScale& scale) {
  std::string picture = "<svg class=\"bar\" height=\"20\" aria-hidden=\"true\">";
  for (double tick = 0; tick <= scale.high * (1 + 1e-9); tick += scale.step)
    picture += text_at(scale, tick, 15, /*room=*/0.02, tick == 0 ? "0" : without_zeros(chart.format(tick)));
  picture += "<line class=\"axis\" x1=\"0\" x2=\"100%\" y1=\"1\" y2=\"1\"/>";
  return row("", picture + "</svg>", "");
}

std::string key_of(const BarChart& chart) {
  std::vector<BarPart> all;
  for (const Bar& bar : chart.bars) {
    for (const BarPart& part : bar.parts) {
      const bool is_new = std::ranges::find(all, part.name, &BarPart::name) == all.end();
      if (is_new && part.value > 0) all.push_back(part);
    }
  }
  std::string key;
  for (const BarPart& part : all) {
    key += fmt::format("<span><span class=\"swatch part-{}\"></span>{}{}</span>", part.colour, html(part.name),
                       chart.bars.size() == 1 ? " " + html(chart.format(part.value)) : "");
  }
  return fmt::format("<div class=\"key\">{}</div>\n", key);
}

}  // namespace

std::string bar_chart(const BarChart& chart) {
  const BarScale scale = scale_of(chart);
  std::string rows = limit_row(chart, scale), note = chart.note;
  for (const Bar& bar : chart.bars) rows += bar_row(chart, scale, bar);
  if (std::ranges::any_of(chart.bars, [&](const Bar& bar) { return scale.cuts(length_of(bar)); }))
    note += fmt::format("{}bars beyond {} are cut", note.empty() ? "" : "; ", without_zeros(chart.format(scale.high)));
  return fmt::format(
      "<figure class=\"chart bars{}\"><figcaption><span>{}</span><span class=\"unit\">{}</span></figcaption>\n{}"
      "<div class=\"bar-rows\">\n{}{}</div></figure>\n",
      chart.bars.size() == 1 ? " single" : "", html(chart.title), html(note), key_of(chart), rows,
      tick_row(chart, scale));
}

}  // namespace trainer
