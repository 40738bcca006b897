#include "planning/stage_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "console/units.h"
#include "planning/plan_text.h"

namespace trainer {

namespace {

constexpr size_t kNameColumns = 27, kMostRows = 12, kFirstRows = 4;

size_t width_of(const std::string& column) { return std::max<size_t>(8, column.size() + 1); }

// "0-1, 8-9".
std::string ranges_text(std::vector<int64_t> numbers) {
  std::ranges::sort(numbers);
  std::vector<std::string> ranges;
  for (size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    for (end = begin + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;) ++end;
    ranges.push_back(range_text(numbers[begin], numbers[end - 1]));
  }
  return fmt::format("{}", fmt::join(ranges, ", "));
}

std::vector<int64_t> ranks_of_stage(const fsdp::plan::MeshPlaces& places, int pipeline_rank) {
  std::vector<int64_t> ranks;
  fsdp::plan::MeshCoordinates at{.pipeline = pipeline_rank};
  for (at.data = 0; at.data < places.sizes().data; ++at.data) {
    for (at.tensor = 0; at.tensor < places.sizes().tensor; ++at.tensor) ranks.push_back(places.rank_of(at));
  }
  return ranks;
}

}  // namespace

std::string stage_name(const fsdp::plan::Mesh& mesh, const fsdp::plan::MeshPlaces& places, int pipeline_rank) {
  const std::vector<int> stages = mesh.stages_of(pipeline_rank);
  const std::vector<int64_t> ranks = ranks_of_stage(places, pipeline_rank);
  const std::string plural = ranks.size() == 1 ? "" : "s";
  const std::string of_stages = fmt::format("stage{} {}", stages.size() == 1 ? "" : "s", fmt::join(stages, ", "));
  const auto count = counted(std::ssize(stages), "stage"), number = counted(std::ssize(ranks), "rank");
  for (const std::string& name :
       {fmt::format("{} (rank{} {})", of_stages, plural, ranges_text(ranks)), fmt::format("{} ({})", of_stages, number),
        fmt::format("{} from {} ({})", count, stages.front(), number)}) {
    if (name.size() <= kNameColumns - 2) return name;
  }
  return fmt::format("{} from {}", count, stages.front());
}

StageRows::StageRows(std::string name, std::vector<std::string> columns)
    : heading_(fmt::format("{:<{}}", std::move(name), kNameColumns)), columns_(std::move(columns)) {
  for (const std::string& column : columns_) heading_ += fmt::format("{:>{}}", column, width_of(column));
  heading_ += "\n";
}

void StageRows::add(const std::string& name, const std::vector<double>& bytes) {
  StageRow row{.text = fmt::format("  {:<{}}", name, kNameColumns - 2), .last = bytes.back()};
  for (size_t i = 0; i < bytes.size(); ++i)
    row.text += fmt::format("{:>{}}", plan_bytes(bytes[i]), width_of(columns_[i]));
  row.text += "\n";
  rows_.push_back(std::move(row));
}

std::string StageRows::text() const {
  std::string text = heading_;
  const size_t most = static_cast<size_t>(std::ranges::max_element(rows_, {}, &StageRow::last) - rows_.begin());
  size_t left_out = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const bool is_shown = rows_.size() <= kMostRows || i < kFirstRows || i + 1 == rows_.size() || i == most;
    text += is_shown ? rows_[i].text : "";
    left_out += is_shown ? 0 : 1;
  }
  return left_out == 0 ? text
                       : text + fmt::format("  and {} between\n", counted(static_cast<int64_t>(left_out), "row"));
}

}  // namespace trainer
