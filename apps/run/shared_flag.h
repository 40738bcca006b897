// A flag that a forked rank sets and its parent reads.
#pragma once

#include "run/shared_value.h"

namespace trainer {

class SharedFlag {
 public:
  void set() { value_.set(true); }
  bool is_set() const { return value_.get(); }

 private:
  SharedValue<bool> value_{false};
};

}  // namespace trainer
