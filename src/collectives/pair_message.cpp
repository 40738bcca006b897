#include "collectives/pair_message.h"

#include "base/error.h"
#include "base/rank_names.h"
#include "collectives/tags.h"

namespace fsdp::collectives {

namespace {

void check_arrived(const TensorHeader& theirs, const TensorHeader& own, const std::string& peer, int tag) {
  FSDP_CHECK(theirs.same_shape(own),
             "receive_: found {} from {} with tag {}, expected {}. Give both ends the same shape and dtype.",
             describe(theirs), peer, tag, describe(own));
}

}  // namespace

PairMessage::PairMessage(Transport& transport, const torch::Tensor& tensor, Direction direction, int peer, int tag)
    : transport_(&transport),
      direction_(direction),
      peer_(peer),
      tag_(tag),
      tensor_(tensor.detach()),
      own_(std::make_unique<TensorHeader>(header_of(tensor))),
      theirs_(std::make_unique<TensorHeader>()) {
  const size_t bytes = tensor_.nbytes();
  if (direction == Direction::Send) {
    header_ = transport.send(own_.get(), sizeof *own_, peer, header_tag(tag));
    if (bytes > 0) elements_ = transport.send(tensor_.const_data_ptr(), bytes, peer, elements_tag(tag, bytes));
  } else {
    header_ = transport.receive(theirs_.get(), sizeof *theirs_, peer, header_tag(tag));
    if (bytes > 0) elements_ = transport.receive(tensor_.mutable_data_ptr(), bytes, peer, elements_tag(tag, bytes));
  }
}

void PairMessage::wait() {
  const std::string peer = text_of_rank(transport_->name_of(peer_));
  const std::string purpose = (direction_ == Direction::Send ? "sends a tensor to " : "receives a tensor from ") + peer;
  if (header_) {
    transport_->wait_for(header_, purpose);
    header_.reset();
    if (direction_ == Direction::Receive) check_arrived(*theirs_, *own_, peer, tag_);
  }
  if (elements_) transport_->wait_for(elements_, purpose);
  elements_.reset();
}

// A receive is over also if the header has come, and is that of another tensor.
bool PairMessage::is_over() const {
  if (header_ && !header_->is_over()) return false;
  if (header_ && direction_ == Direction::Receive && !theirs_->same_shape(*own_)) return true;
  return !elements_ || elements_->is_over();
}

}  // namespace fsdp::collectives
