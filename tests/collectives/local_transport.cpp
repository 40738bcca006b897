#include "collectives/local_transport.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace fsdp::collectives {

class LocalMessage final : public Message {
 public:
  LocalMessage(LocalNetwork& network, std::shared_ptr<LocalNetwork::End> end, int peer)
      : network_(network), end_(std::move(end)), peer_(peer) {}
  ~LocalMessage() override { network_.forget(end_); }
  void wait() override { network_.wait(end_, peer_); }
  void abort() override { network_.abort(end_); }
  bool is_over() override { return network_.is_over(end_); }

 private:
  LocalNetwork& network_;
  std::shared_ptr<LocalNetwork::End> end_;
  int peer_;
};

class LocalTransport final : public Transport {
 public:
  LocalTransport(LocalNetwork& network, int rank) : network_(network), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return network_.size_; }
  std::unique_ptr<Message> send(const void* bytes, size_t size, int peer, int tag) override {
    return begin({true, rank_, peer, tag, bytes, nullptr, size}, peer);
  }
  std::unique_ptr<Message> receive(void* bytes, size_t size, int peer, int tag) override {
    return begin({false, peer, rank_, tag, nullptr, bytes, size}, peer);
  }

 private:
  std::unique_ptr<Message> begin(LocalNetwork::End end, int peer) {
    auto shared = std::make_shared<LocalNetwork::End>(end);
    network_.start(shared);
    return std::make_unique<LocalMessage>(network_, shared, peer);
  }

  LocalNetwork& network_;
  int rank_;
};

class LocalBoard final : public StatusBoard {
 public:
  explicit LocalBoard(std::shared_ptr<LocalNetwork::Statuses> statuses) : statuses_(std::move(statuses)) {}
  void post(int rank, const std::string& status) override;
  std::optional<std::string> read(int rank) override;

 private:
  std::shared_ptr<LocalNetwork::Statuses> statuses_;
};

std::unique_ptr<Transport> LocalNetwork::transport(int rank) { return std::make_unique<LocalTransport>(*this, rank); }

void LocalNetwork::fail(int rank) {
  std::lock_guard lock(mutex_);
  failed_.insert(rank);
  changed_.notify_all();
}

void LocalNetwork::start(const std::shared_ptr<End>& end) {
  std::lock_guard lock(mutex_);
  auto other = std::find_if(waiting_.begin(), waiting_.end(), [&](const std::shared_ptr<End>& candidate) {
    return candidate->from == end->from && candidate->to == end->to && candidate->tag == end->tag &&
           candidate->sends != end->sends;
  });
  if (other == waiting_.end()) {
    waiting_.push_back(end);
    return;
  }
  End& sent = end->sends ? *end : **other;
  End& received = end->sends ? **other : *end;
  if (sent.size != received.size)
    throw TransportFailure("the sizes of a message's ends differ", end->sends ? end->to : end->from);
  if (sent.size > 0) std::memcpy(received.target, sent.source, sent.size);
  sent.done = received.done = true;
  waiting_.erase(other);
  changed_.notify_all();
}

void LocalNetwork::wait(const std::shared_ptr<End>& end, int peer) {
  std::unique_lock lock(mutex_);
  bool ended = changed_.wait_for(lock, timeout_, [&] { return end->done || end->aborted || failed_.count(peer); });
  if (end->done) return;
  end->aborted = false;
  throw TransportFailure("rank " + std::to_string(peer) + (ended ? " is gone" : " did not answer"), peer);
}

void LocalNetwork::abort(const std::shared_ptr<End>& end) {
  std::lock_guard lock(mutex_);
  end->aborted = true;
  changed_.notify_all();
}

bool LocalNetwork::is_over(const std::shared_ptr<End>& end) {
  std::lock_guard lock(mutex_);
  return end->done;
}

void LocalNetwork::forget(const std::shared_ptr<End>& end) {
  std::lock_guard lock(mutex_);
  waiting_.remove(end);
}

void LocalBoard::post(int rank, const std::string& status) {
  std::lock_guard lock(statuses_->mutex);
  statuses_->of_rank[rank] = status;
}

std::optional<std::string> LocalBoard::read(int rank) {
  std::lock_guard lock(statuses_->mutex);
  auto found = statuses_->of_rank.find(rank);
  return found == statuses_->of_rank.end() ? std::nullopt : std::optional(found->second);
}

std::unique_ptr<StatusBoard> LocalNetwork::board() const { return std::make_unique<LocalBoard>(statuses_); }

void run_threads(int ranks, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace fsdp::collectives
