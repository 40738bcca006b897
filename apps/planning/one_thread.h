// Tiny runs of models.
#pragma once

#include <torch/utils.h>

namespace trainer {

// Threads would wait longer for each other than they compute.
class OneThread {
 public:
  OneThread() : before_(torch::get_num_threads()) { torch::set_num_threads(1); }
  ~OneThread() { torch::set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace trainer
