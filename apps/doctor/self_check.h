// A step of training, to see whether it works here.
#pragma once

#include <vector>

#include "doctor/finding.h"

namespace trainer {

// Starts two ranks as the trainer does, which gather a layer, reduce its gradient over the backend that they choose,
// and step; then they measure the peak by which the trainer counts its MFU. To be called before anything has started a
// thread. By then ranks have written their errors to standard error. A process that is a rank of another job already
// checks nothing.
std::vector<Finding> check_two_ranks();

}  // namespace trainer
