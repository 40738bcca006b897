// A board on which the ranks of a group leave statuses for each other, beside the connections that they wait on.
//
// A rank has one status, of which the latest stands. Any thread. Both calls throw when the board cannot be reached.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>
#include <optional>
#include <string>

namespace fsdp::collectives {

class StatusBoard {
 public:
  virtual ~StatusBoard() = default;
  virtual void post(int rank, const std::string& status) = 0;
  // Does not wait for one that is not there.
  virtual std::optional<std::string> read(int rank) = 0;
};

// `store` is of this group alone.
std::unique_ptr<StatusBoard> make_store_board(c10::intrusive_ptr<c10d::Store> store);

}  // namespace fsdp::collectives
