// An archive of torch::serialize, which torch::load reads into a module: the dots of names are those between
// submodules.
#include <torch/serialize/output-archive.h>

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include "base/error.h"
#include "files/printable.h"
#include "formats/new_file.h"
#include "formats/sink.h"

namespace fsdp::formats {

namespace {

constexpr std::ptrdiff_t kDeepestModule = 64;

// LibTorch writes names into code, which it reads again when it loads the archive.
bool is_attribute(const std::string& name) {
  const auto is_letter = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  char before = '.';
  for (const char c : name) {
    if (!is_letter(c) && (c != '.' || before == '.')) return false;
    before = c;
  }
  return before != '.';
}

// A module: its own tensors, and its submodules.
struct ArchivedModule {
  std::vector<std::pair<std::string, size_t>> tensors;  // of those announced
  std::map<std::string, ArchivedModule> children;

  void add(const std::string& name, size_t number) {
    const size_t dot = name.find('.');
    if (dot == std::string::npos) {
      tensors.emplace_back(name, number);
    } else {
      children[name.substr(0, dot)].add(name.substr(dot + 1), number);
    }
  }
};

class ArchiveSink : public Sink {
 public:
  ArchiveSink(const std::filesystem::path& target, Announced announced, Existing existing)
      : file_(new_file(target, existing)), announced_(std::move(announced)) {
    for (size_t i = 0; i < announced_.tensors.size(); ++i) {
      const StoredTensor& tensor = announced_.tensors[i];
      FSDP_INVARIANT(tensor.name.role != Role::State, "a state for an archive that holds a model alone");
      FSDP_CHECK(is_attribute(tensor.name.name),
                 "{} cannot be the name of an archive's tensor: expected letters, digits and _ between dots",
                 files::printable(tensor.name.name));
      const auto depth = std::ranges::count(tensor.name.name, '.');
      FSDP_CHECK(depth <= kDeepestModule, "{} would lie {} modules deep, expected at most {}",
                 files::printable(tensor.name.name), depth, kDeepestModule);
      root_.add(tensor.name.name, i);
    }
  }

  void write(const torch::Tensor& tensor) override { tensors_.push_back(tensor); }

  void commit() override {
    torch::serialize::OutputArchive archive;
    fill(archive, root_);
    // LibTorch's writer must not see an exception: it would end the process.
    std::exception_ptr failure;
    archive.save_to([&](const void* bytes, size_t size) {
      try {
        if (!failure) file_->file().append(bytes, size);
      } catch (...) {
        failure = std::current_exception();
      }
      return size;
    });
    if (failure) std::rethrow_exception(failure);
    file_->commit();
  }

 private:
  void fill(torch::serialize::OutputArchive& archive, const ArchivedModule& module) const {
    for (const auto& [name, number] : module.tensors) {
      FSDP_CHECK(!module.children.contains(name), "{} is a tensor and a module of others: an archive cannot have both",
                 files::printable(announced_.tensors[number].name.name));
      archive.write(name, tensors_[number], announced_.tensors[number].name.role == Role::Buffer);
    }
    for (const auto& [name, child] : module.children) {
      torch::serialize::OutputArchive nested(archive.compilation_unit());
      fill(nested, child);
      archive.write(name, nested);
    }
  }

  std::unique_ptr<files::ReplacedFile> file_;
  Announced announced_;
  ArchivedModule root_;
  std::vector<torch::Tensor> tensors_;
};

}  // namespace

std::unique_ptr<Sink> write_archive(const std::filesystem::path& target, Announced announced, Existing existing) {
  return std::make_unique<ArchiveSink>(target, std::move(announced), existing);
}

}  // namespace fsdp::formats
