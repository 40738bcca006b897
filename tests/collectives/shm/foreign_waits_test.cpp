// Messages between two ranks that move while their thread waits in another group, with threads as ranks. Built with the
// thread sanitizer. Where a message stands still, the test does not end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "collectives/pumps.h"
#include "collectives/shm/thread_ranks.h"
#include "collectives/shm/transport.h"
#include "support/message_of.h"

namespace fsdp::collectives::shm {
namespace {

using ::fsdp::testing::message_of;
using ::testing::HasSubstr;

const std::string kLong(size_t{5} << 20, 'a');  // longer than a ring
const int kLongTag = elements_tag(0, kLong.size());

std::vector<char*> prepared_memory(ThreadRanks& threads) {
  std::vector<char*> memory;
  for (int rank = 0; rank < threads.size(); ++rank) {
    OwnMemory& own = threads.memory(rank);
    memory.push_back(own.at(own.allocate(SharedMemoryTransport::bytes_for(threads.size()))));
    SharedMemoryTransport::prepare(memory.back(), threads.size());
  }
  return memory;
}

// Runs `body` as each of two ranks of two groups.
void run_two_groups(const std::function<void(Transport& messages, Transport& elsewhere)>& body) {
  ThreadRanks first(2), second(2);
  const std::vector<char*> of_first = prepared_memory(first), of_second = prepared_memory(second);
  first.run([&](Ranks& own) {
    const std::unique_ptr<Ranks> other = second.join(own.rank());
    SharedMemoryTransport messages(own, of_first), elsewhere(*other, of_second);
    body(messages, elsewhere);
  });
}

void enter_barrier(Transport& transport) {
  Messages none;
  transport.begin_operation("enters a barrier", 0);
  transport.wait_all(none);
}

std::unique_ptr<Message> begin_send(Transport& transport) {
  return transport.send(kLong.data(), kLong.size(), 1, kLongTag);
}

// On rank 1.
void receive_long(Transport& transport) {
  std::string text(kLong.size(), '?');
  transport.receive(text.data(), text.size(), 0, kLongTag)->wait();
  EXPECT_EQ(text, kLong);
}

TEST(ShmForeignWait, MovesWhatItsThreadSends) {
  run_two_groups([](Transport& messages, Transport& elsewhere) {
    if (messages.rank() == 0) {
      const auto sent = begin_send(messages);
      enter_barrier(elsewhere);
      sent->wait();
    } else {
      receive_long(messages);
      enter_barrier(elsewhere);
    }
  });
}

TEST(ShmForeignWait, MovesWhatItsThreadReceives) {
  run_two_groups([](Transport& messages, Transport& elsewhere) {
    if (messages.rank() == 0) {
      begin_send(messages)->wait();
      enter_barrier(elsewhere);
    } else {
      std::string text(kLong.size(), '?');
      const auto received = messages.receive(text.data(), text.size(), 0, kLongTag);
      enter_barrier(elsewhere);
      received->wait();
      EXPECT_EQ(text, kLong);
    }
  });
}

TEST(ShmForeignWait, ThatCannotPumpIsHelped) {
  std::atomic<bool> has_come = false;
  run_two_groups([&](Transport& messages, Transport&) {
    if (messages.rank() == 0) {
      const auto sent = begin_send(messages);
      {
        const PumpedWait pumped;
        has_come.wait(false);
      }
      sent->wait();
    } else {
      receive_long(messages);
      has_come = true;
      has_come.notify_one();
    }
  });
}

// The first thread waits elsewhere all the time.
TEST(ShmForeignWait, LeavesMessagesToTheThreadThatUsesThem) {
  run_two_groups([](Transport& messages, Transport& elsewhere) {
    if (messages.rank() == 0) {
      const auto sent = begin_send(messages);
      std::thread user([&] {
        const auto second = begin_send(messages);
        sent->wait();
        second->wait();
      });
      enter_barrier(elsewhere);
      user.join();
    } else {
      receive_long(messages);
      receive_long(messages);
      enter_barrier(elsewhere);
    }
  });
}

// A wrong size stands for any error that the bytes of a message may meet.
TEST(ShmForeignWait, LeavesTheErrorOfAMessageToItsOwnWait) {
  run_two_groups([](Transport& messages, Transport& elsewhere) {
    const int tag = header_tag(0);
    if (messages.rank() == 0) {
      const auto sent = messages.send(kLong.data(), 10, 1, tag);
      sent->wait();
      enter_barrier(elsewhere);
    } else {
      char bytes[20] = {};
      const auto received = messages.receive(bytes, sizeof bytes, 0, tag);
      enter_barrier(elsewhere);
      EXPECT_TRUE(received->is_over());
      EXPECT_THAT(message_of<std::logic_error>([&] { received->wait(); }), HasSubstr("has 10 bytes, expected 20"));
    }
    enter_barrier(elsewhere);
  });
}

}  // namespace
}  // namespace fsdp::collectives::shm
