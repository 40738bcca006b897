#include "formats/torch_file_writer.h"

#include <memory>

#include "base/error.h"
#include "files/printable.h"
#include "formats/element_types.h"
#include "formats/pickle_writer.h"
#include "formats/stored_tensor.h"

namespace fsdp::formats {

namespace {

using FileTensor = TorchFileWriter::Tensor;

// A dict of dicts, tensors and numbers, in the order in which they came.
struct Branch {
  std::vector<std::string> keys;
  std::map<std::string, Branch> branches;
  std::optional<size_t> tensor;
  std::optional<int64_t> number;
  bool is_leaf() const { return tensor || number; }
};

Branch& leaf_of(Branch& root, const std::vector<std::string>& path) {
  Branch* branch = &root;
  const auto check = [&](bool condition) {
    FSDP_CHECK(condition, "{} and another tensor would be called the same, or one lie within the other",
               files::printable(fmt::format("{}", fmt::join(path, "."))));
  };
  for (const std::string& key : path) {
    check(!branch->is_leaf());
    if (!branch->branches.contains(key)) branch->keys.push_back(key);
    branch = &branch->branches[key];
  }
  check(!branch->is_leaf() && branch->keys.empty());
  return *branch;
}

class StatePickle {
 public:
  explicit StatePickle(const std::vector<FileTensor>& tensors) : tensors_(tensors) {
    size_t storages = 0;
    for (const FileTensor& tensor : tensors) {
      storages_.push_back(tensor.same_as ? storages_.at(*tensor.same_as) : storages++);
    }
  }

  std::string text(const Branch& root) && {
    append(root);
    return out_.finish();
  }

 private:
  void append(const Branch& branch) {
    if (branch.tensor) return append_tensor(*branch.tensor);
    if (branch.number) return out_.number(*branch.number);
    out_.empty_dict();
    for (const std::string& key : branch.keys) {
      out_.text(key);
      append(branch.branches.at(key));
      out_.set_item();
    }
  }

  void append_tensor(size_t i) {
    const FileTensor& tensor = tensors_[i];
    out_.global("torch._utils", "_rebuild_tensor_v2");
    out_.mark();
    append_storage(tensor, storages_[i]);
    out_.number(0);  // of the storage's elements, where it begins
    out_.numbers(tensor.shape);
    out_.numbers(contiguous_strides(tensor.shape));
    out_.boolean(false);  // requires_grad
    out_.global("collections", "OrderedDict");
    out_.empty_tuple();
    out_.call();  // hooks
    out_.tuple();
    out_.call();
  }

  void append_storage(const FileTensor& tensor, size_t storage) {
    const auto width = static_cast<int64_t>(c10::elementSize(tensor.type));
    out_.mark();
    out_.text("storage");
    out_.global("torch", names_of(tensor.type).storage);
    out_.text(std::to_string(storage));
    out_.text("cpu");
    out_.number(bytes_of(tensor.type, tensor.shape).value() / width);
    out_.tuple();
    out_.persistent();
  }

  const std::vector<FileTensor>& tensors_;
  std::vector<size_t> storages_;
  PickleWriter out_;
};

}  // namespace

TorchFileWriter::TorchFileWriter(files::DurableFile& file, const std::vector<Tensor>& tensors,
                                 const std::map<std::string, int64_t>& numbers)
    : zip_(file) {
  Branch root;
  for (size_t i = 0; i < tensors.size(); ++i) leaf_of(root, tensors[i].path).tensor = i;
  for (const auto& [name, number] : numbers) leaf_of(root, {name}).number = number;
  zip_.add("archive/data.pkl", StatePickle(tensors).text(root));
  zip_.add("archive/byteorder", "little");
}

void TorchFileWriter::write(const torch::Tensor& tensor) {
  const torch::Tensor contiguous = tensor.detach().cpu().contiguous();
  zip_.add(fmt::format("archive/data/{}", written_++), contiguous.const_data_ptr(), contiguous.nbytes());
}

void TorchFileWriter::finish() {
  zip_.add("archive/version", "3\n");
  zip_.finish();
}

}  // namespace fsdp::formats
