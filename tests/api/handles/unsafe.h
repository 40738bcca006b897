// Handles that tools/check_handles.py has to find, or to leave alone. Nothing includes this.
#pragma once

#include <memory>

namespace fsdp {

class Unsafe {
 public:
  Unsafe(Unsafe&&) noexcept = default;
  void use();

 private:
  std::shared_ptr<int> pointer_;
};

class UnsafeByDefault {
  std::vector<int> values_ = {};
};

class UnsafeOnTwoLines {
  std::map<std::string, std::vector<std::shared_ptr<int>>> map_;
};

class Copied {
 public:
  Copied(const Copied&) = default;

 private:
  std::shared_ptr<int> copied_;
};

class Pinned {
 public:
  Pinned(Pinned&&) = delete;
  ~Pinned();

 private:
  std::unique_ptr<int> pinned_;
};

class Safe {
  detail::Movable<"Safe", std::shared_ptr<int>> safe_;
  bool flag_ = false;
};

}  // namespace fsdp
