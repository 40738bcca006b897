// Files of torch.save and archives of torch::serialize.
#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "formats/source.h"
#include "formats/state_names.h"
#include "formats/torch_file.h"

namespace fsdp::formats {

namespace {

files::OpenFile open_zip(const std::filesystem::path& path) {
  files::OpenFile file = files::open_regular(path, path.string());
  FSDP_CHECK(
      !is_plain_pickle(file),
      "{} is a pickle, as torch.save wrote it before PyTorch 1.6, or of another program. It is not read: load it "
      "where it was made, and save a dict of tensors with a newer torch.save.",
      path.string());
  FSDP_CHECK(is_zip(file), "{} is not a file of torch.save or torch::serialize: it does not begin like a zip file",
             path.string());
  return file;
}

class TorchSource : public Source {
 public:
  TorchSource(const std::filesystem::path& path, const std::vector<std::string>& buffers)
      : Source(Format::TorchFile), file_(open_zip(path)), torch_file_(file_, 0, file_.bytes, path.string()) {
    const bool is_model = torch_file_.is_archive();
    if (is_model) format_ = Format::Archive;
    facts_.left_out = torch_file_.others();
    const auto step = torch_file_.numbers().find("step");
    if (step != torch_file_.numbers().end() && step->second >= 0) {
      facts_.step = step->second;
      --facts_.left_out;
    }
    std::vector<StatePath> paths;
    for (const auto& tensor : torch_file_.tensors()) paths.push_back(tensor.path);
    std::vector<std::optional<TensorName>> names;
    if (!is_model) names = names_of_state(paths);
    for (size_t i = 0; i < paths.size(); ++i) add(i, is_model ? name_of_model(paths[i]) : names[i]);
    settle_buffers(tensors_, buffers);
    settle_numbered_states();
  }

  torch::Tensor read(size_t number) override { return torch_file_.read(torch_file_.tensors()[numbers_[number]]); }

 private:
  void add(size_t number, const std::optional<TensorName>& name) {
    if (!name) {
      ++facts_.left_out;
      return;
    }
    const PickledTensor& layout = torch_file_.tensors()[number].layout;
    StoredTensor tensor{.name = *name, .type = layout.type, .shape = layout.shape};
    const auto [first, is_new] =
        seen_.emplace(std::tuple(layout.storage, layout.offset, layout.shape, layout.strides), tensors_.size());
    if (!is_new) tensor.same_as = first->second;
    tensors_.push_back(std::move(tensor));
    numbers_.push_back(number);
  }

  // [..., optimizer, "state", NUMBER, STATE]
  void settle_numbered_states() {
    const auto first = std::ranges::find_if(tensors_, [](const StoredTensor& one) { return is_numbered(one.name); });
    if (first == tensors_.end()) return;
    const StatePath& path = torch_file_.tensors()[numbers_[static_cast<size_t>(first - tensors_.begin())]].path;
    const auto depth = static_cast<std::ptrdiff_t>(std::max<size_t>(path.size(), 3) - 3);
    const auto named =
        name_numbered_states(tensors_, torch_file_.parameter_groups({path.begin(), path.begin() + depth}));
    facts_.states_by_order = named == NumberedStates::NamedByOrder;
    if (named == NumberedStates::Unknown) leave_out_numbered_states();
  }

  void leave_out_numbered_states() {
    std::vector<StoredTensor> kept;
    std::vector<size_t> numbers;                                  // in the file, of those
    std::vector<std::optional<size_t>> kept_as(tensors_.size());  // their numbers among those
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (is_numbered(tensors_[i].name)) {
        ++facts_.numbered_states;
        continue;
      }
      kept_as[i] = kept.size();
      numbers.push_back(numbers_[i]);
      kept.push_back(std::move(tensors_[i]));
      if (kept.back().same_as) kept.back().same_as = kept_as[*kept.back().same_as];
    }
    tensors_ = std::move(kept);
    numbers_ = std::move(numbers);
  }

  using Place = std::tuple<std::string, int64_t, std::vector<int64_t>, std::vector<int64_t>>;

  files::OpenFile file_;
  TorchFile torch_file_;
  std::vector<size_t> numbers_;  // in the file, of each tensor
  std::map<Place, size_t> seen_;
};

}  // namespace

std::unique_ptr<Source> open_torch_file(const std::filesystem::path& path, const std::vector<std::string>& buffers) {
  return std::make_unique<TorchSource>(path, buffers);
}

}  // namespace fsdp::formats
