// Messages through shared memory, with threads as ranks and random delays. Built with the thread sanitizer.
#include "collectives/shm/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>

#include "collectives/shm/thread_ranks.h"
#include "support/drawn.h"
#include "support/message_of.h"

namespace fsdp::collectives::shm {
namespace {

using ::fsdp::testing::message_of;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr size_t kRing = size_t{512} << 10;  // of two or three ranks; five have less

// Runs `body` as each of so many ranks.
void run_transports(int ranks, const std::function<void(SharedMemoryTransport&, Ranks&)>& body,
                    std::chrono::milliseconds timeout = std::chrono::hours(1)) {
  ThreadRanks threads(ranks, timeout);
  std::vector<char*> memory;
  for (int rank = 0; rank < ranks; ++rank) {
    OwnMemory& own = threads.memory(rank);
    memory.push_back(own.at(own.allocate(SharedMemoryTransport::bytes_for(ranks))));
    SharedMemoryTransport::prepare(memory.back(), ranks);
  }
  threads.run([&](Ranks& own) {
    SharedMemoryTransport transport(own, memory);
    body(transport, own);
  });
}

std::string text_of(int from, int to, size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + i / 251 + 31 * from + 101 * to);
  return text;
}

// Every rank sends every other a text of so many bytes, and receives theirs.
void exchange_texts(Transport& transport, size_t size, std::mt19937& random) {
  std::vector<std::string> sent(transport.size()), received(transport.size(), std::string(size, '?'));
  Messages messages;
  for (int peer : transport.peers()) {
    sent[peer] = text_of(transport.rank(), peer, size);
    messages.push_back(transport.send(sent[peer].data(), size, peer, 5));
    delay(random);
    messages.push_back(transport.receive(received[peer].data(), size, peer, 5));
  }
  transport.wait_all(messages);
  for (int peer : transport.peers()) ASSERT_EQ(received[peer], text_of(peer, transport.rank(), size)) << size;
}

// Every rank sends one text to all others.
void share_texts(Transport& transport, size_t size, std::mt19937& random) {
  const std::string own = text_of(transport.rank(), 0, size);
  std::vector<std::string> received(transport.size(), std::string(size, '?'));
  Messages messages;
  const bool shares_first = random() % 2 == 0;
  if (shares_first) transport.share(own.data(), size, 5, messages);
  for (int peer : transport.peers()) {
    delay(random);
    messages.push_back(transport.receive_shared(received[peer].data(), size, peer, 5));
  }
  if (!shares_first) transport.share(own.data(), size, 5, messages);
  transport.wait_all(messages);
  for (int peer : transport.peers()) ASSERT_EQ(received[peer], text_of(peer, 0, size)) << size;
}

class ShmTransport : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ShmTransport, testing::drawn<int>({3}, {2, 5}), ::testing::PrintToStringParamName());

TEST_P(ShmTransport, MovesMessagesOfEveryLength) {
  run_transports(GetParam(), [](Transport& transport, Ranks&) {
    std::mt19937 random(transport.rank());
    for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, kRing - sizeof(Frame) - 1, kRing - sizeof(Frame),
                              kRing - sizeof(Frame) + 1, kRing, kRing + 1, 5 * kRing + 7, size_t{3}}) {
      transport.begin_operation("exchanges texts", size);
      exchange_texts(transport, size, random);
      share_texts(transport, size, random);
    }
  });
}

TEST_P(ShmTransport, KeepsOperationsApart) {
  run_transports(GetParam(), [](Transport& transport, Ranks&) {
    std::mt19937 random(transport.rank()), common(0);
    for (int operation = 0; operation < 300; ++operation) {
      const size_t size = common() % 3 == 0 ? common() % 100000 : common() % 100;
      const int source = static_cast<int>(common() % transport.size());
      transport.begin_operation("exchanges texts", size);
      delay(random);
      const auto kind = common() % 3;
      if (kind == 0) exchange_texts(transport, size, random);
      if (kind == 1) share_texts(transport, size, random);
      if (kind < 2) continue;
      // From one rank alone: the others wait for no message, but for all ranks to begin.
      std::string text = transport.rank() == source ? text_of(source, 0, size) : std::string(size, '?');
      Messages messages;
      if (transport.rank() != source) messages.push_back(transport.receive(text.data(), size, source, operation % 3));
      for (int peer : transport.peers())
        if (transport.rank() == source) messages.push_back(transport.send(text.data(), size, peer, operation % 3));
      transport.wait_all(messages);
      ASSERT_EQ(text, text_of(source, 0, size));
    }
  });
}

TEST(ShmTransportOrder, IsByTagAndThenByTheOrderOfSends) {
  run_transports(2, [](Transport& transport, Ranks&) {
    const std::vector<std::pair<int, size_t>> sent{{1, 3 * kRing}, {2, 10}, {1, 20}, {3, 2 * kRing}, {3, 0}};
    std::vector<std::string> texts;
    for (const auto& [tag, size] : sent) texts.push_back(text_of(tag, static_cast<int>(texts.size()), size));
    if (transport.rank() == 0) {
      Messages messages;
      for (size_t i = 0; i < sent.size(); ++i)
        messages.push_back(transport.send(texts[i].data(), texts[i].size(), 1, sent[i].first));
      transport.wait_all(messages);
      return;
    }
    for (const size_t next : {3, 1, 0, 2, 4}) {
      std::string text(sent[next].second, '?');
      transport.receive(text.data(), text.size(), 0, sent[next].first)->wait();
      EXPECT_EQ(text, texts[next]);
    }
  });
}

TEST(ShmTransportOrder, ASharedMessageIsWaitedForAlone) {
  run_transports(3, [](Transport& transport, Ranks&) {
    std::string text = transport.rank() == 1 ? text_of(1, 0, 5 * kRing) : std::string(5 * kRing, '?');
    if (transport.rank() == 1) {
      Messages messages;
      transport.share(text.data(), text.size(), 3, messages);
      messages.front()->wait();
    } else {
      transport.receive_shared(text.data(), text.size(), 1, 3)->wait();
    }
    EXPECT_EQ(text, text_of(1, 0, 5 * kRing));
  });
}

// Messages that came before they were asked for, in an operation that is over, are none of a later one's.
TEST(ShmTransportOrder, AMessageThatIsNeverReceivedIsDropped) {
  run_transports(2, [](Transport& transport, Ranks&) {
    const int peer = 1 - transport.rank();
    for (const char letter : {'a', 'b'}) {
      transport.begin_operation("exchanges texts", 1);
      char theirs = '?', same = '?';
      Messages messages;
      transport.share(&letter, 1, 7, messages);
      messages.push_back(transport.send(&letter, 1, peer, 0));
      messages.push_back(transport.receive(&theirs, 1, peer, 0));
      if (letter == 'b') messages.push_back(transport.receive_shared(&same, 1, peer, 7));
      transport.wait_all(messages);
      EXPECT_EQ(theirs, letter);
      if (letter == 'b') EXPECT_EQ(same, 'b');
    }
  });
}

// Each waits for its send first, and takes what comes meanwhile.
TEST(ShmTransportOrder, LongMessagesInBothDirectionsDoNotHoldEachOtherUp) {
  run_transports(2, [](Transport& transport, Ranks&) {
    const int peer = 1 - transport.rank();
    const std::string own = text_of(transport.rank(), peer, 10 * kRing);
    std::string theirs(10 * kRing, '?');
    const auto send = transport.send(own.data(), own.size(), peer, 0);
    const auto receive = transport.receive(theirs.data(), theirs.size(), peer, 0);
    send->wait();
    receive->wait();
    EXPECT_EQ(theirs, text_of(peer, transport.rank(), 10 * kRing));
  });
}

TEST(ShmTransportOrder, AMessageThatIsGivenUpLeavesTheOthersAlone) {
  run_transports(2, [](Transport& transport, Ranks&) {
    const int peer = 1 - transport.rank();
    const std::string own = text_of(transport.rank(), peer, 4 * kRing);
    std::string theirs(4 * kRing, '?');
    {
      std::string gone(4 * kRing, '?'), also_gone(4 * kRing, '?');
      const auto send = transport.send(gone.data(), gone.size(), peer, 0);
      const auto receive = transport.receive(also_gone.data(), also_gone.size(), peer, 0);
    }
    Messages messages;
    messages.push_back(transport.send(own.data(), own.size(), peer, 0));
    messages.push_back(transport.receive(theirs.data(), theirs.size(), peer, 0));
    transport.wait_all(messages);
    EXPECT_EQ(theirs, text_of(peer, transport.rank(), 4 * kRing));
  });
}

// The texts of operations that differ are those of shm/exchange.
TEST(ShmTransportFailure, OfRanksInDifferentOperationsIsToldToEach) {
  run_transports(3, [](Transport& transport, Ranks&) {
    transport.begin_operation("enters a barrier", 0);
    Messages none;
    transport.wait_all(none);
    transport.begin_operation(transport.rank() == 1 ? "enters a barrier" : "enters a broadcast", 4);
    EXPECT_THAT(message_of<WaitFailure>([&] { transport.wait_all(none); }),
                ContainsRegex("(rank 0 enters a broadcast where rank 1 enters a barrier|"
                              "rank 1 enters a barrier where rank 2 enters a broadcast) .operation 2 of this group"));
  });
}

TEST(ShmTransportFailure, OfOperationsOfDifferentLengthsNamesTheLengths) {
  run_transports(2, [](Transport& transport, Ranks&) {
    transport.begin_operation("enters an all_gather", transport.rank() == 0 ? 8 : 16);
    Messages none;
    EXPECT_THAT(message_of<WaitFailure>([&] { transport.wait_all(none); }),
                HasSubstr("rank 0 enters an all_gather with 8 bytes where rank 1 enters an all_gather with 16 bytes"));
  });
}

TEST(ShmTransportFailure, NamesAPeerThatLeaves) {
  run_transports(3, [](Transport& transport, Ranks&) {
    if (transport.rank() == 1) return;
    transport.begin_operation("enters a barrier", 0);
    Messages none;
    try {
      transport.wait_all(none);
      FAIL();
    } catch (const TransportFailure& failure) {
      EXPECT_EQ(failure.peer(), 1);
      EXPECT_THAT(failure.what(), HasSubstr("rank 1 has returned early, or destroyed the model, while rank"));
    }
  });
}

TEST(ShmTransportFailure, NamesAPeerThatLeavesTheRestOfAMessageUnread) {
  run_transports(2, [](Transport& transport, Ranks&) {
    if (transport.rank() == 1) return;
    const std::string text(3 * kRing, 'a');
    const auto message = transport.send(text.data(), text.size(), 1, 0);
    EXPECT_THAT(message_of<TransportFailure>([&] { message->wait(); }), HasSubstr("rank 1 has returned early"));
  });
}

TEST(ShmTransportFailure, NamesASilentPeerAfterTheTimeout) {
  std::atomic<bool> over = false;
  run_transports(
      2,
      [&](Transport& transport, Ranks&) {
        while (transport.rank() == 1 && !over) std::this_thread::yield();
        if (transport.rank() == 1) return;
        char byte = 0;
        const auto message = transport.receive(&byte, 1, 1, 0);
        EXPECT_THAT(message_of<TransportFailure>([&] { message->wait(); }),
                    HasSubstr("rank 1 did not answer within 200 ms"));
        over = true;
      },
      std::chrono::milliseconds(200));
}

// The others have taken all that there is of the message.
TEST(ShmTransportFailure, OfASharedMessageNamesThePeerThatDoesNotTakeIt) {
  for (const bool alone : {false, true}) {
    std::atomic<bool> over = false;
    run_transports(
        4,
        [&](Transport& transport, Ranks&) {
          transport.begin_operation("enters a broadcast", 1);
          std::string text(5 * kRing, 'a');
          Messages messages;
          if (transport.rank() == 0) {
            transport.share(text.data(), text.size(), 0, messages);
            EXPECT_THAT(
                message_of<TransportFailure>([&] { alone ? messages.front()->wait() : transport.wait_all(messages); }),
                HasSubstr("rank 2 did not answer within 2000 ms"));
            over = true;
          } else if (transport.rank() == 2) {
            while (!over) std::this_thread::yield();
          } else {
            const auto message = transport.receive_shared(text.data(), text.size(), 0, 0);
            // Rank 0 may have failed, and left, before this rank gives up.
            EXPECT_THAT(message_of<TransportFailure>([&] { message->wait(); }),
                        AnyOf(HasSubstr("rank 2 did not answer within 2000 ms"), HasSubstr("rank 0 has returned")));
          }
        },
        std::chrono::milliseconds(2000));
  }
}

TEST(ShmTransportFailure, OfAPeerReachesThoseThatWait) {
  std::atomic<bool> heard = false;
  run_transports(2, [&](Transport& transport, Ranks& ranks) {
    if (transport.rank() == 0) ranks.fail({0, "out of paper"});
    while (transport.rank() == 0 && !heard) std::this_thread::yield();
    if (transport.rank() == 0) return;
    char byte = 0;
    const auto message = transport.receive(&byte, 1, 0, 0);
    EXPECT_THAT(message_of<WaitFailure>([&] { message->wait(); }), HasSubstr("rank 0 failed: out of paper"));
    heard = true;
  });
}

TEST(ShmTransportFailure, OfAnAbortedWaitIsOver) {
  std::atomic<bool> aborted = false;
  run_transports(2, [&](Transport& transport, Ranks&) {
    const char text = 'a';
    if (transport.rank() == 0) {
      while (!aborted) std::this_thread::yield();
      return transport.send(&text, 1, 1, 0)->wait();
    }
    char byte = 0;
    const auto message = transport.receive(&byte, 1, 0, 0);
    message->abort();
    EXPECT_THAT(message_of<TransportFailure>([&] { message->wait(); }), HasSubstr("the wait for rank 0 was aborted"));
    aborted = true;
    message->wait();
    EXPECT_EQ(byte, 'a');
  });
}

}  // namespace
}  // namespace fsdp::collectives::shm
