// How a folder may be after a loss of power: what POSIX promises of it, and no more.
//
// Bytes are on the disk once their file was synced, names once their directory was. Before that, of the bytes of a file
// anything may be there: nothing, zeros, the first half. The changes of one directory's names come to the disk in their
// order, as journals keep it, and stop anywhere; those of another directory stop elsewhere. After Pillai et al., "All
// File Systems Are Not Created Equal" (OSDI 2014), and LevelDB's tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/file_faults.h"

namespace crash {

class DiskModel {
 public:
  // The folder as it is now, all of it on the disk.
  explicit DiskModel(const std::filesystem::path& folder);

  // A call of a process, in the order of the log. Throws for one that the model does not have.
  void apply(const file_faults::Logged& call);
  // The processes have ended: their descriptors are closed, and the kernel still has all that they wrote.
  void end_of_processes() { opened_.clear(); }

  // Files by their paths from the folder on, with their bytes; directories have a '/' at their end and none.
  using State = std::map<std::string, std::string>;
  // The states that may be found after a loss of power now. Not each combination of what may be missing, but of one
  // directory at a time with all or none of the others, and of the bytes of all files alike.
  std::vector<State> states() const;
  State now() const;  // as running processes see it

 private:
  enum class Bytes { Synced, Zeros, FirstHalf, All };
  static constexpr int kGone = -1;
  using Names = std::map<std::string, int>;                 // of a directory, to nodes
  using Change = std::vector<std::pair<std::string, int>>;  // names that change together
  struct Node {
    bool is_directory = false;
    Names synced = {};                 // of a directory
    std::vector<Change> changes = {};  // since then
    std::string synced_bytes = {};     // of a file
    std::string bytes = {};
  };
  using Depths = std::map<int, size_t>;  // how many changes of a directory came to the disk; all of others

  int add(bool is_directory);
  int scan(const std::filesystem::path& path);
  static Names names_of(const Node& directory, size_t changes);
  int find(const std::string& path) const;  // kGone: nothing is there
  int directory_of(const std::string& path) const;
  void change(const std::string& path, Change change);
  void open(const file_faults::Logged& call);
  void sync(Node& node);
  std::string bytes_of(const Node& file, Bytes bytes) const;
  void collect(int node, const std::string& path, const Depths& depths, Bytes bytes, State& state) const;

  std::string folder_;
  std::vector<Node> nodes_;
  int root_ = kGone;
  std::map<int32_t, int> opened_;  // from the log's numbers
};

// Makes the folder so. What was there is removed.
void write_state(const DiskModel::State& state, const std::filesystem::path& folder);
// For a message: the files, with their sizes.
std::string text_of(const DiskModel::State& state);

}  // namespace crash
