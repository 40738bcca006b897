#include "engine/recorded_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "engine/facts.h"
#include "engine/model_view.h"
#include "interpose/recomputation.h"
#include "report/timeline.h"
#include "schedule/strategies.h"

namespace fsdp::testing_models {

using plan::SimulatedAction;
using plan::StepEvent;
using plan::StepEvents;
using report::Activity;
using schedule::Mode;
using EventKind = StepEvent::Kind;

// Calls of the program have no listener: no_sync and steps are seen by what the machine and the schedule say at the
// next event.
class ProgramRecorder::Listener final : public interpose::Listener {
 public:
  explicit Listener(const engine::Parts& parts) : parts_(parts), behind_(parts.link->listener) {
    parts_.link->listener = this;
  }
  ~Listener() override { parts_.link->listener = behind_; }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  StepEvents take() {
    note_calls();
    return std::move(events_);
  }

  void operator_begins(std::span<const int> units, std::optional<int> written, const char* operation) override {
    note_calls();
    const bool runs_again = interpose::runs_again();
    behind_->operator_begins(units, written, operation);
    events_.push_back({.kind = EventKind::OperatorBegins,
                       .units = {units.begin(), units.end()},
                       .mode = mode(),
                       .runs_again = runs_again,
                       .seconds = 1e-3});
  }
  void operator_ends(std::span<const int> units) noexcept override {
    behind_->operator_ends(units);
    events_.push_back({.kind = EventKind::OperatorEnds, .units = {units.begin(), units.end()}});
  }
  void operator_wrote(const char* operation) override { behind_->operator_wrote(operation); }
  void parameter_viewed(int unit) override { behind_->parameter_viewed(unit); }
  void pieces_used(const interpose::PieceUse& use, const char* operation) override {
    behind_->pieces_used(use, operation);
  }
  void gradient_read() override { behind_->gradient_read(); }
  torch::Tensor gradient_destination(int unit, int parameter) override {
    note_calls();
    const engine::ShardedUnit& one = *parts_.units[unit];
    if (one.dtype() == one.gradients.dtype()) events_.push_back({.kind = EventKind::GradientPlace, .units = {unit}});
    return behind_->gradient_destination(unit, parameter);
  }
  void gradient_arrives(int unit, int parameter, torch::Tensor gradient) override {
    note_calls();
    behind_->gradient_arrives(unit, parameter, std::move(gradient));
    events_.push_back(
        {.kind = EventKind::Gradient, .units = {unit}, .number = parts_.units[unit]->gradients.trainable()});
  }
  void backward_ends(int task) override {
    const bool inside = parts_.driver.machine().in_backward();
    behind_->backward_ends(task);
    if (inside && !parts_.driver.machine().in_backward()) events_.push_back({.kind = EventKind::BackwardEnds});
  }

 private:
  Mode mode() const {
    if (parts_.driver.machine().in_backward()) return Mode::Backward;
    return torch::GradMode::is_enabled() ? Mode::Forward : Mode::ForwardWithoutGradients;
  }
  void note_calls() {
    const bool is_local = parts_.driver.machine().in_no_sync();
    if (is_local_ && !is_local) events_.push_back({.kind = EventKind::NoSyncEnds});
    const int64_t changes = parts_.driver.schedule().changes();
    if (std::exchange(changes_, changes) != changes) events_.push_back({.kind = EventKind::Step});
    if (!is_local_ && is_local) events_.push_back({.kind = EventKind::NoSyncBegins});
    is_local_ = is_local;
  }

  const engine::Parts& parts_;
  interpose::Listener* behind_;
  StepEvents events_;
  bool is_local_ = false;
  int64_t changes_ = parts_.driver.schedule().changes();
};

namespace {

const char* name_of(Activity activity) {
  constexpr const char* kNames[] = {"forward",
                                    "backward",
                                    "update",
                                    "publish",
                                    "gather",
                                    "reduce",
                                    "wait for gather",
                                    "wait for reduction",
                                    "wait for replicas",
                                    "wait for readers",
                                    "wait for agreement",
                                    "wait for parts"};
  return kNames[static_cast<size_t>(activity)];
}

// In the order of the ends, then in the order of the begins.
Lines lines_of(std::vector<report::Span> spans) {
  Lines lines;
  const auto add = [&](const char* what, const report::Span& span) {
    lines.push_back(fmt::format("{}{} {}", what, name_of(span.activity), span.unit));
  };
  for (const report::Span& span : spans) add("", span);
  std::ranges::stable_sort(spans, {}, &report::Span::begin);
  for (const report::Span& span : spans) add("begin of ", span);
  return lines;
}

// Adds an action to a timeline as the engine's performer does.
void replay(const SimulatedAction& action, const schedule::Facts& facts, report::Timeline& timeline) {
  using Kind = SimulatedAction::Kind;
  const auto wait = [&](Activity activity, int unit) { timeline.add({activity, unit, report::now(), 0}); };
  switch (action.kind) {
    case Kind::Forward:
      return timeline.computes(Activity::Forward, action.unit, 0);
    case Kind::Backward:
      return timeline.computes(Activity::Backward, action.unit, 0);
    case Kind::Update:
      return timeline.computes(Activity::Update, action.unit, 0);
    case Kind::Publish:
      timeline.computes(Activity::Publish, action.unit, 0);
      return timeline.computes_nothing();
    case Kind::EndOfBackward:
      return timeline.computes_nothing();
    case Kind::Gather:
      return timeline.begins(Activity::Gather, action.unit);
    case Kind::Reduce:
      return timeline.begins(Activity::Reduce, action.unit);
    case Kind::WaitGather:
      wait(Activity::WaitGather, action.unit);
      return timeline.ends(Activity::Gather, action.unit);
    case Kind::WaitReduce:
      if (!facts.alone()) wait(Activity::WaitReduce, action.unit);
      return timeline.ends(Activity::Reduce, action.unit);
    case Kind::WaitPeers:
      return wait(action.stream == SimulatedAction::Stream::Gathers ? Activity::WaitGather : Activity::WaitReduce,
                  action.unit);
    case Kind::WaitReplicas:
      return wait(Activity::WaitReplicas, report::kNoUnit);
    case Kind::WaitReaders:
      timeline.computes_nothing();
      return wait(Activity::WaitReaders, report::kNoUnit);
    case Kind::WaitAgreement:
      return wait(Activity::WaitAgreement, report::kNoUnit);
    case Kind::Other:
    case Kind::WaitMessage:
    case Kind::Meet:
    case Kind::Open:
    case Kind::Release:
      return;
  }
}

const char* name_of(Mode mode) {
  return mode == Mode::Backward ? "backward" : mode == Mode::Forward ? "forward" : "forward without gradients";
}

std::string line_of(const schedule::Action& action) {
  return to_string(action) + (action.foreseen ? ", foreseen" : "");
}

constexpr size_t kWordsOfEvent = 5;

}  // namespace

ProgramRecorder::ProgramRecorder(ShardedModel& sharded, const Options& options)
    : model_(sharded.shared_model()),
      limits_(schedule::limits_of(static_cast<int>(model_->units().size()), options.buffers, options.prefetch,
                                  schedule::kStrategies.at(static_cast<size_t>(options.strategy)).full_until,
                                  model_->units().front()->sums_in_place())) {
  const engine::Parts* parts = &*engine::ModelView(*model_);
  listener_ = std::make_unique<Listener>(*parts);
  model_->begin_trace();
}

ProgramRecorder::~ProgramRecorder() = default;

RecordedRun ProgramRecorder::end() {
  RecordedRun run{.limits = limits_, .events = listener_->take(), .trace = lines_of(model_->end_trace().spans)};
  const engine::ModelView parts(*model_);
  run.facts = engine::facts_of(parts->units, parts->shards, *parts->group);
  run.decisions = decisions_of(parts->driver.schedule().record().step());
  return run;
}

Lines trace_of(const std::vector<plan::SimulatedStep>& steps, const schedule::Facts& facts) {
  report::Timeline timeline;
  for (const plan::SimulatedStep& step : steps) {
    for (const SimulatedAction& action : step.actions) replay(action, facts, timeline);
  }
  return lines_of(timeline.take());
}

Lines decisions_of(const schedule::Step& step) {
  Lines lines;
  for (const schedule::MicroBatches& batches : step.micro_batches) {
    lines.push_back(
        fmt::format("{} micro-batches, full before: {}", batches.count, fmt::join(batches.full_before, " ")));
    for (const schedule::Event& event : batches.events) {
      using Kind = schedule::Event::Kind;
      if (event.kind == Kind::Use) lines.push_back(fmt::format("{} on {}", name_of(event.mode), event.action.unit));
      if (event.kind == Kind::EndOfBackward) lines.emplace_back("end of backward");
      if (event.kind == Kind::Action) lines.push_back(line_of(event.action));
    }
  }
  lines.emplace_back("behind");
  for (const schedule::Action& action : step.behind) lines.push_back(line_of(action));
  return lines;
}

std::string first_difference(const Lines& found, const Lines& expected) {
  const auto [one, other] = std::ranges::mismatch(found, expected);
  if (one == found.end() && other == expected.end()) return "";
  const auto line = [](const auto& at, const auto& all) { return at == all.end() ? "the end" : *at; };
  return fmt::format("line {} of {}: found {}, expected {}", one - found.begin() + 1, expected.size(), line(one, found),
                     line(other, expected));
}

std::vector<StepEvents> exchange_events(World& world, const std::filesystem::path& folder, const StepEvents& events) {
  const auto file = [&](int rank) { return folder / fmt::format("events.{}", rank); };
  std::vector<int64_t> words;
  for (const StepEvent& event : events) {
    words.insert(words.end(), {static_cast<int64_t>(event.kind), static_cast<int64_t>(event.mode), event.runs_again,
                               event.number, std::ssize(event.units)});
    words.insert(words.end(), event.units.begin(), event.units.end());
  }
  std::ofstream(file(world.rank()), std::ios::binary)
      .write(reinterpret_cast<const char*>(words.data()), std::ssize(words) * 8);
  world.barrier();
  std::vector<StepEvents> all(world.size());
  for (int rank = 0; rank < world.size(); ++rank) {
    std::ifstream in(file(rank), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const std::vector<int64_t> read(reinterpret_cast<const int64_t*>(bytes.data()),
                                    reinterpret_cast<const int64_t*>(bytes.data() + bytes.size()));
    for (auto word = read.begin(); word != read.end();) {
      StepEvent event{.kind = static_cast<EventKind>(word[0]),
                      .mode = static_cast<Mode>(word[1]),
                      .runs_again = word[2] != 0,
                      .number = word[3]};
      const auto units = word + kWordsOfEvent;
      event.units.assign(units, units + word[4]);
      word = units + word[4];
      if (event.kind == EventKind::OperatorBegins) event.seconds = 1e-3;
      all[rank].push_back(std::move(event));
    }
  }
  world.barrier();
  return all;
}

}  // namespace fsdp::testing_models
