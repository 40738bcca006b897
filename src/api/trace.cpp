#include "fsdp/trace.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "files/durable_file.h"
#include "report/running_trace.h"

namespace fsdp {

namespace {

std::filesystem::path file_of(const report::RunningTrace& trace, std::filesystem::path path) {
  if (trace.alone()) return path;
  return path.replace_filename(
      fmt::format("{}.rank{}{}", path.stem().string(), trace.rank(), path.extension().string()));
}

}  // namespace

Trace::Trace(std::shared_ptr<report::RunningTrace> running) : running_(std::move(running)) {}
Trace::~Trace() = default;

void Trace::add(const std::string& name, std::chrono::steady_clock::time_point begin,
                std::chrono::steady_clock::time_point end) {
  using std::chrono::duration_cast;
  using std::chrono::nanoseconds;
  FSDP_CHECK(running_.get() != nullptr, "trace.add({}): the trace has ended. Add spans before it is written.", name);
  running_.get()->add(report::NamedSpan{.row = report::kProgram,
                                        .name = name,
                                        .begin = duration_cast<nanoseconds>(begin.time_since_epoch()).count(),
                                        .end = duration_cast<nanoseconds>(end.time_since_epoch()).count()});
}

std::string Trace::events(std::chrono::nanoseconds shift) {
  FSDP_CHECK(running_.get() != nullptr, "trace.events: the trace has ended. Write it once, or begin another.");
  const auto running = std::exchange(running_.get(), nullptr);
  return report::trace_events(running->end(), running->rank(), shift.count());
}

std::filesystem::path Trace::write(const std::filesystem::path& path) {
  FSDP_CHECK(running_.get() != nullptr, "trace.write({}): the trace has ended. Write it once, or begin another.",
             path.string());
  const std::filesystem::path file = file_of(*running_, path);
  const auto explained = [](const auto& write) {
    try {
      write();
    } catch (const Error& error) {
      throw_error(message_prefix() + fmt::format("trace.write: {} Name a file in a folder that exists.", error.what()));
    }
  };
  std::optional<files::ReplacedFile> out;
  explained([&] { out.emplace(file); });  // a trace for which there is no file goes on
  const auto running = std::exchange(running_.get(), nullptr);
  const std::string events = report::trace_events(running->end(), running->rank());
  explained([&] {
    out->file().append(events);
    out->commit();
  });
  return file;
}

}  // namespace fsdp
