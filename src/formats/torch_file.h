// A file of torch.save (since PyTorch 1.6), or an archive of torch::serialize, open for reading: a zip file with a
// pickle, NAME/data.pkl, and an entry for each storage of tensors, NAME/data/KEY.
//
// Nothing of it is run: the pickle is read by pickle_reader.h, and an archive's code not at all. Tensors are read one
// by one; the first read of a storage compares all of it with its checksum. One thread at a time.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "files/reading.h"
#include "formats/pickle_reader.h"
#include "formats/pickled_tensor.h"
#include "formats/state_names.h"
#include "formats/zip_reader.h"

namespace fsdp::formats {

class TorchFile {
 public:
  struct Tensor {
    std::vector<std::string> path;  // keys of dicts, numbers of lists, attributes of modules; empty: all of the file
    PickledTensor layout;
  };

  // Reads a part of `file`, which outlives this; `name` begins the messages. Throws Error for what is no such file or
  // is damaged: each tensor's storage is there, and of the size that the pickle says.
  TorchFile(const files::OpenFile& file, int64_t begin, int64_t bytes, const std::string& name);

  bool is_archive() const { return is_archive_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }  // in the order of the file
  // Whole numbers that the outermost dict has, by name.
  const std::map<std::string, int64_t>& numbers() const { return numbers_; }
  // Those of the optimizer whose dict lies there.
  std::vector<ParameterGroup> parameter_groups(const std::vector<std::string>& optimizer) const;
  // Values that are no tensors and hold none, those of numbers() as well.
  size_t others() const { return others_; }

  // Row-major. Throws Error where the bytes are damaged.
  torch::Tensor read(const Tensor& tensor) const;

 private:
  void walk(const Pickle& pickle, Pickle::Id id, std::vector<std::string>& path);
  void walk_items(const Pickle& pickle, const Pickle::Value& value, std::vector<std::string>& path);
  void add(const std::vector<std::string>& path, PickledTensor layout);
  void count_name_bytes(size_t bytes);
  void count_visited(size_t values);
  void read_groups(const Pickle& pickle, const Pickle::Value& list, const std::vector<std::string>& path);
  void check_checksum(const std::string& entry) const;

  const files::OpenFile& file_;
  std::string name_;
  ZipReader zip_;
  std::string prefix_;  // "NAME/"
  bool is_archive_ = false;
  std::vector<Tensor> tensors_;
  std::map<std::string, int64_t> numbers_;
  std::map<std::vector<std::string>, std::vector<ParameterGroup>> groups_;  // by the path of their optimizer
  size_t others_ = 0, visited_ = 0, name_bytes_ = 0;
  mutable std::set<std::string> checked_;  // storages
};

// True if the file begins as a pickle: what torch.save wrote before PyTorch 1.6, and other programs write.
bool is_plain_pickle(const files::OpenFile& file);
// True if it begins as a zip file.
bool is_zip(const files::OpenFile& file);

}  // namespace fsdp::formats
