#include "fsdp/trace.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "engine/model.h"
#include "engine/trace_events.h"

namespace fsdp {

namespace {

std::filesystem::path file_of_rank(std::filesystem::path path, int rank, int size) {
  if (size == 1) return path;
  return path.replace_filename(fmt::format("{}.rank{}{}", path.stem().string(), rank, path.extension().string()));
}

}  // namespace

Trace::Trace(std::shared_ptr<engine::Model> model) : model_(std::move(model)) { model_->begin_trace(); }

Trace::~Trace() {
  if (model_) model_->end_trace();
}

std::filesystem::path Trace::write(const std::filesystem::path& path) {
  FSDP_CHECK(model_ != nullptr, "trace.write({}): the trace has ended. Write it once, or begin another.",
             path.string());
  const int rank = model_->group().rank();
  const std::filesystem::path file = file_of_rank(path, rank, model_->group().size());
  std::ofstream out(file);
  const auto check = [&] {
    FSDP_CHECK(!out.fail(), "trace.write: {} cannot be written: {}. Name a file in a folder that exists.",
               file.string(), std::strerror(errno));
  };
  check();
  std::vector<std::string> units;
  for (const auto& unit : model_->units()) units.push_back(unit->name);
  out << engine::trace_events(std::exchange(model_, nullptr)->end_trace(), units, rank);
  out.close();
  check();
  return file;
}

}  // namespace fsdp
