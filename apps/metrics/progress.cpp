#include "metrics/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "console/bar.h"
#include "console/units.h"

namespace trainer {

namespace {

// Three digits or more.
std::string milliseconds(double seconds) {
  const double count = 1000 * seconds;
  return fmt::format("{:.{}f}", count, count < 9.995 ? 2 : count < 99.95 ? 1 : 0);
}

// As many columns for what went astray as for what did not.
std::string decimal(double number, int decimals) {
  return std::abs(number) < 1e4 ? fmt::format("{:.{}f}", number, decimals) : fmt::format("{:.1e}", number);
}

// A part of the bar line: the label, then the value at the right of its columns, which hold what is usual. Parts are
// dropped from the highest `rank` on.
struct Part {
  std::string label, value;
  size_t usual;  // columns of a value
  int rank;
  size_t columns() const { return label.size() + std::max(value.size(), usual); }  // all are ASCII
};

size_t digits_of(int64_t number) { return fmt::format("{}", number).size(); }

Part steps_part(int64_t step, int64_t steps) {
  return {"", fmt::format("{}/{}", step, steps), 2 * digits_of(steps) + 1, 0};
}

std::vector<Part> parts_of(const StepRecord& record, int64_t steps) {
  std::vector<Part> parts = {steps_part(record.step, steps),
                             {"loss ", decimal(record.loss, 3), 6, 1},
                             {"norm ", decimal(record.grad_norm, 2), 5, 4},
                             {"lr ", scientific(record.lr), 6, 5},
                             {"", short_number(record.tokens_per_second) + " tok/s", 11, 3},
                             {"", short_bytes(static_cast<size_t>(record.memory_bytes)), 7, 6},
                             {"", milliseconds(record.step_seconds) + " ms", 8, 7},
                             {"", duration(record.seconds_left) + " left", 12, 2}};
  if (record.mfu) parts.insert(parts.end() - 1, Part{"MFU ", fmt::format("{:.1f} %", 100 * *record.mfu), 6, 8});
  return parts;
}

std::string painted(const Part& part, bool colour) {
  const std::string value = fmt::format("{:>{}}", part.value, part.usual);
  return colour && !part.label.empty() ? "\033[2m" + part.label + "\033[0m" + value : part.label + value;
}

constexpr size_t kShortestBar = 5;
constexpr size_t kLongestBar = 40;

struct Layout {
  size_t gap, bar_columns;
};

// Room for all parts and a bar, with two columns between them or else one.
std::optional<Layout> fit(const std::vector<Part>& parts, size_t columns) {
  size_t used = 0;
  for (const Part& part : parts) used += part.columns();
  for (size_t gap : {2, 1}) {
    const size_t needed = used + gap * parts.size();
    const size_t shortest = gap == 2 ? 2 * kShortestBar : kShortestBar;
    if (columns >= needed + shortest) return Layout{gap, std::min(columns - needed, kLongestBar)};
  }
  return std::nullopt;
}

// Drops parts until the others fit; none does where there is no room for the first and a bar.
std::optional<Layout> dropped_to_fit(std::vector<Part>& parts, size_t columns) {
  std::optional<Layout> layout = fit(parts, columns);
  while (!layout && parts.size() > 1) {
    parts.erase(std::max_element(parts.begin(), parts.end(), [](auto& a, auto& b) { return a.rank < b.rank; }));
    layout = fit(parts, columns);
  }
  return layout;
}

// The first part, the bar, the others. Where the line is so narrow that one of the three that matter most were dropped,
// fields are as wide as their values.
std::string fitted_line(const std::vector<Part>& all, double done, int width, const Terminal& terminal) {
  constexpr size_t kMatterMost = 3;
  const auto columns = static_cast<size_t>(std::max(width - 1, 1));
  std::vector<Part> parts = all;
  std::optional<Layout> layout = dropped_to_fit(parts, columns);
  if (parts.size() < std::min(kMatterMost, all.size())) {
    parts = all;
    for (Part& part : parts) part.usual = 0;
    layout = dropped_to_fit(parts, columns);
  }
  if (!layout) return parts[0].value.substr(0, columns);
  const std::string gap(layout->gap, ' ');
  std::string line = painted(parts[0], terminal.colour) + gap + bar(done, layout->bar_columns, terminal);
  for (size_t i = 1; i < parts.size(); ++i) line += gap + painted(parts[i], terminal.colour);
  return line;
}

double share_of(int64_t step, int64_t steps) { return static_cast<double>(step) / static_cast<double>(steps); }

}  // namespace

std::string progress_bar(const StepRecord& record, int64_t steps, int width, const Terminal& terminal) {
  return fitted_line(parts_of(record, steps), share_of(record.step, steps), width, terminal);
}

std::string waiting_bar(int64_t steps_done, int64_t steps, int width, const Terminal& terminal) {
  return fitted_line({steps_part(steps_done, steps), {"", fmt::format("step {} runs", steps_done + 1), 0, 1}},
                     share_of(steps_done, steps), width, terminal);
}

std::string validation_line(const StepRecord& record, int64_t steps) {
  return fmt::format("step {:>{}}/{}  validation loss {:>7}  loss {:>7}", record.step, digits_of(steps), steps,
                     decimal(record.validation_loss.value_or(0), 4), decimal(record.loss, 4));
}

std::string progress_line(const StepRecord& record, int64_t steps) {
  std::string line = fmt::format("step {:>{}}/{}  loss {:>7}  norm {:>8}  lr {:>8.2e}  {:>6} tok/s", record.step,
                                 digits_of(steps), steps, decimal(record.loss, 4), decimal(record.grad_norm, 3),
                                 record.lr, short_number(record.tokens_per_second));
  if (record.mfu) line += fmt::format("  MFU {:>4.1f} %", 100 * *record.mfu);
  line += fmt::format("  memory {:>7}  {:>5} ms  left {:>7}", short_bytes(static_cast<size_t>(record.memory_bytes)),
                      milliseconds(record.step_seconds), duration(record.seconds_left));
  if (record.validation_loss) line += fmt::format("  validation loss {:.4f}", *record.validation_loss);
  if (record.skipped) line += "  skipped";
  if (record.skipped && record.loss_scale) line += fmt::format(" at loss scale {}", *record.loss_scale);
  return line;
}

Progress::Progress(int64_t steps, int64_t log_every, Terminal terminal)
    : steps_(steps), log_every_(log_every), terminal_(terminal) {}

Progress::~Progress() { finish(); }

bool Progress::is_due(const StepRecord& record) const {
  if (!shown_ || record.step == steps_ || record.validation_loss) return true;
  if (!terminal_.interactive && log_every_ > 0) return record.step % log_every_ == 0;
  const auto pause = terminal_.interactive ? std::chrono::milliseconds(50) : std::chrono::seconds(5);
  return Clock::now() - *shown_ >= pause;
}

void Progress::show(const StepRecord& record) {
  if (is_due(record)) {
    waiting_.reset();
    put(record);
  } else {
    waiting_ = record;
  }
}

void Progress::begin(int64_t steps_done) {
  if (!terminal_.interactive) return;
  begun_ = steps_done;
  draw();
}

void Progress::put(const StepRecord& record) {
  shown_ = Clock::now();
  if (terminal_.interactive) {
    if (record.validation_loss) tell(validation_line(record, steps_));
    begun_.reset();
    drawn_ = record;
    draw();
  } else {
    print(progress_line(record, steps_) + "\n");
  }
}

// The width is asked for each time: terminals change theirs. One that became narrower has wrapped the line that is
// there; as the cursor waits at its beginning, what is wrapped lies behind the new line, where it is erased. One that
// becomes narrower just now cuts the new line.
void Progress::draw() {
  const int width = terminal_width();
  const std::string line =
      begun_ ? waiting_bar(*begun_, steps_, width, terminal_) : progress_bar(*drawn_, steps_, width, terminal_);
  draw_line(line);
}

void Progress::tell(const std::string& text) {
  if (is_drawn()) trainer::draw("\r\033[J");
  print(text + "\n");
  if (is_drawn()) draw();
}

void Progress::finish() {
  if (waiting_) put(*std::exchange(waiting_, std::nullopt));
  if (!is_drawn()) return;
  draw();  // once more, lest something wrapped remains below
  print("\n");
  begun_.reset();
  drawn_.reset();
}

}  // namespace trainer
