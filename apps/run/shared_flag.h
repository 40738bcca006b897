// A flag that a forked rank sets, and that its parent and the other ranks read.
#pragma once

#include "run/shared_value.h"

namespace trainer {

class SharedFlag {
 public:
  void set() { value_.set(true); }
  // True if it was not set before.
  bool set_first() { return !value_.exchange(true); }
  void clear() { value_.set(false); }
  bool is_set() const { return value_.get(); }

 private:
  SharedValue<bool> value_{false};
};

}  // namespace trainer
