#include "fsdp/trace.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "engine/reports.h"
#include "files/durable_file.h"
#include "report/trace_events.h"

namespace fsdp {

namespace {

std::filesystem::path file_of_rank(std::filesystem::path path, int rank, int size) {
  if (size == 1) return path;
  return path.replace_filename(fmt::format("{}.rank{}{}", path.stem().string(), rank, path.extension().string()));
}

}  // namespace

Trace::Trace(std::shared_ptr<engine::Model> model) : model_(std::move(model)) { model_->begin_trace(); }

Trace::~Trace() {
  if (!model_.is_moved_from() && model_.get() != nullptr) model_->end_trace();
}

std::filesystem::path Trace::write(const std::filesystem::path& path) {
  FSDP_CHECK(model_.get() != nullptr, "trace.write({}): the trace has ended. Write it once, or begin another.",
             path.string());
  const int rank = model_->group().rank();
  const std::filesystem::path file = file_of_rank(path, rank, model_->group().size());
  const auto explained = [](const auto& write) {
    try {
      write();
    } catch (const Error& error) {
      throw_error(message_prefix() + fmt::format("trace.write: {} Name a file in a folder that exists.", error.what()));
    }
  };
  std::optional<files::ReplacedFile> out;
  explained([&] { out.emplace(file); });  // a trace for which there is no file goes on
  std::vector<std::string> units;
  for (const auto& unit : model_->units()) units.push_back(unit->name);
  const std::string events = report::trace_events(std::exchange(model_.get(), nullptr)->end_trace(), units, rank);
  explained([&] {
    out->file().append(events);
    out->commit();
  });
  return file;
}

}  // namespace fsdp
