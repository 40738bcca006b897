#include "crash/disk_model.h"

#include <fcntl.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <stdexcept>

namespace crash {

namespace fs = std::filesystem;
using file_faults::Call;

namespace {

std::string content_of(const fs::path& file) {
  std::ostringstream bytes;
  bytes << std::ifstream(file, std::ios::binary).rdbuf();
  return std::move(bytes).str();
}

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

DiskModel::DiskModel(const fs::path& folder) : folder_(folder.string()) { root_ = scan(folder); }

int DiskModel::add(bool is_directory) {
  nodes_.push_back({.is_directory = is_directory});
  return static_cast<int>(nodes_.size()) - 1;
}

int DiskModel::scan(const fs::path& path) {
  const int node = add(fs::is_directory(path));
  if (!nodes_[node].is_directory) {
    nodes_[node].synced_bytes = nodes_[node].bytes = content_of(path);
    return node;
  }
  Names names;
  for (const auto& entry : fs::directory_iterator(path)) {
    names[entry.path().filename().string()] = scan(entry.path());
  }
  nodes_[node].synced = std::move(names);
  return node;
}

DiskModel::Names DiskModel::names_of(const Node& directory, size_t changes) {
  Names names = directory.synced;
  for (size_t i = 0; i < std::min(changes, directory.changes.size()); ++i) {
    for (const auto& [name, node] : directory.changes[i]) {
      if (node == kGone) {
        names.erase(name);
      } else {
        names[name] = node;
      }
    }
  }
  return names;
}

int DiskModel::find(const std::string& path) const {
  if (path == folder_) return root_;
  const int parent = find(parent_of(path));
  if (parent == kGone || !nodes_[parent].is_directory) return kGone;
  const Names names = names_of(nodes_[parent], std::numeric_limits<size_t>::max());
  const auto found = names.find(name_of(path));
  return found == names.end() ? kGone : found->second;
}

int DiskModel::directory_of(const std::string& path) const {
  const int parent = find(parent_of(path));
  if (parent == kGone) throw std::runtime_error("the model has no directory for " + path);
  return parent;
}

void DiskModel::change(const std::string& path, Change change) {
  nodes_[directory_of(path)].changes.push_back(std::move(change));
}

void DiskModel::open(const file_faults::Logged& call) {
  int node = find(call.path);
  const bool is_new = node == kGone;
  if (is_new) {
    node = add(/*is_directory=*/false);
    change(call.path, {{name_of(call.path), node}});
  }
  if (!is_new && (call.offset & O_TRUNC) != 0) nodes_[node].bytes.clear();
  opened_[call.file] = node;
}

void DiskModel::sync(Node& node) {
  node.synced = names_of(node, node.changes.size());
  node.changes.clear();
  node.synced_bytes = node.bytes;
}

void DiskModel::apply(const file_faults::Logged& call) {
  if (!call.succeeded) return;
  switch (call.call) {
    case Call::Open:
      return open(call);
    case Call::Write: {
      std::string& bytes = nodes_[opened_.at(call.file)].bytes;
      const auto end = static_cast<size_t>(call.offset) + call.bytes.size();
      if (bytes.size() < end) bytes.resize(end);
      bytes.replace(static_cast<size_t>(call.offset), call.bytes.size(), call.bytes);
      return;
    }
    case Call::Truncate:
      return nodes_[opened_.at(call.file)].bytes.resize(static_cast<size_t>(call.offset));
    case Call::Sync:
      return sync(nodes_[opened_.at(call.file)]);
    case Call::MakeDirectory: {
      const int made = add(/*is_directory=*/true);
      return change(call.path, {{name_of(call.path), made}});
    }
    case Call::Remove:
    case Call::RemoveDirectory:
      return change(call.path, {{name_of(call.path), kGone}});
    case Call::Rename:
    case Call::Exchange: {
      if (parent_of(call.path) != parent_of(call.other)) {
        throw std::runtime_error("the model renames within one directory only, found " + call.path + " to " +
                                 call.other);
      }
      const int stays = call.call == Call::Exchange ? find(call.other) : kGone;
      return change(call.path, {{name_of(call.path), stays}, {name_of(call.other), find(call.path)}});
    }
    case Call::Close:
    case Call::Mode:
    case Call::Lock:
    case Call::Mark:
      return;
  }
}

std::string DiskModel::bytes_of(const Node& file, Bytes bytes) const {
  if (file.bytes == file.synced_bytes || bytes == Bytes::All) return file.bytes;
  switch (bytes) {
    case Bytes::Zeros:
      return std::string(file.bytes.size(), '\0');
    case Bytes::FirstHalf:
      return file.bytes.substr(0, file.bytes.size() / 2);
    default:
      return file.synced_bytes;
  }
}

void DiskModel::collect(int node, const std::string& path, const Depths& depths, Bytes bytes, State& state) const {
  const Node& here = nodes_[node];
  if (!here.is_directory) {
    state[path] = bytes_of(here, bytes);
    return;
  }
  if (!path.empty()) state[path + "/"] = "";
  const auto depth = depths.find(node);
  const size_t changes = depth == depths.end() ? here.changes.size() : depth->second;
  for (const auto& [name, inner] : names_of(here, changes)) {
    collect(inner, path.empty() ? name : path + "/" + name, depths, bytes, state);
  }
}

DiskModel::State DiskModel::now() const {
  State state;
  collect(root_, "", {}, Bytes::All, state);
  return state;
}

std::vector<DiskModel::State> DiskModel::states() const {
  std::vector<Depths> choices{{}};
  Depths none;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    if (!nodes_[node].changes.empty()) none[static_cast<int>(node)] = 0;
  }
  for (const auto& [directory, unused] : none) {
    for (size_t depth = 0; depth <= nodes_[directory].changes.size(); ++depth) {
      Depths alone = none;
      alone[directory] = depth;
      choices.push_back(std::move(alone));
      choices.push_back({{directory, depth}});
    }
  }
  std::set<State> found;
  for (const Depths& depths : choices) {
    for (const Bytes bytes : {Bytes::Synced, Bytes::Zeros, Bytes::FirstHalf, Bytes::All}) {
      State state;
      collect(root_, "", depths, bytes, state);
      found.insert(std::move(state));
    }
  }
  return {found.begin(), found.end()};
}

void write_state(const DiskModel::State& state, const fs::path& folder) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const auto& [path, bytes] : state) {
    if (path.ends_with('/')) {
      fs::create_directories(folder / path);
    } else {
      std::ofstream(folder / path, std::ios::binary) << bytes;
    }
  }
}

std::string text_of(const DiskModel::State& state) {
  std::string text;
  for (const auto& [path, bytes] : state) {
    text += "  " + path + (path.ends_with('/') ? "" : " " + std::to_string(bytes.size()) + " bytes") + "\n";
  }
  return text;
}

}  // namespace crash
