// The operator that a thread runs, for the report of a fault.
#pragma once

namespace fsdp::testing::device {

class OperatorInFlight {
 public:
  explicit OperatorInFlight(const char* name);
  OperatorInFlight(const OperatorInFlight&) = delete;
  OperatorInFlight& operator=(const OperatorInFlight&) = delete;
  ~OperatorInFlight();

 private:
  const char* before_;
};

}  // namespace fsdp::testing::device
