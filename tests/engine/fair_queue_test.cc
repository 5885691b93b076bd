// The queue's promises as properties, over made-up loads: shares converge to weights, nothing
// starves, limits are never exceeded, and no room is left idle while a request could use it.
#include "engine/queue/fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "engine/status/fault.h"

namespace beamwright::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);
constexpr FairQueue::Room kMuch{1 << 20, int64_t{1} << 40};

struct Numbered : Ticket {
  int number = 0;
};

TenantPtr MakeTenant(const std::string& name, double weight = 1) {
  Tenant tenant;
  tenant.name = name;
  tenant.weight = weight;
  return std::make_shared<const Tenant>(tenant);
}

std::unique_ptr<Ticket> MakeTicket(const TenantPtr& tenant, uint64_t call = 0, int number = 0) {
  auto ticket = std::make_unique<Numbered>();
  ticket->tenant = tenant;
  ticket->call = call;
  ticket->number = number;
  ticket->accepted = kStart;
  return ticket;
}

int NumberOf(const Ticket& ticket) { return static_cast<const Numbered&>(ticket).number; }

std::string Reason(const absl::Status& status) { return status::ReasonOf(status); }

absl::Status Push(FairQueue& queue, std::unique_ptr<Ticket> ticket, absl::Time now = kStart) {
  return queue.Push(ticket, now);
}

TEST(FairQueueTest, OneCallIsServedInItsOrderAndCallsTakeTurns) {
  FairQueue queue({});
  const TenantPtr tenant = MakeTenant("t");
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Push(queue, MakeTicket(tenant, 7, i)).ok());
  }
  ASSERT_TRUE(Push(queue, MakeTicket(tenant, 8, 10)).ok());
  ASSERT_TRUE(Push(queue, MakeTicket(tenant, 0, 20)).ok());
  ASSERT_TRUE(Push(queue, MakeTicket(tenant, 0, 21)).ok());
  std::vector<int> order;
  while (const auto ticket = queue.Pop(kMuch)) {
    order.push_back(NumberOf(*ticket));
  }
  EXPECT_THAT(order, ElementsAre(0, 10, 20, 21, 1, 2));
}

// A call of thousands delays a call of one by one source, not by thousands.
TEST(FairQueueTest, AHugeCallDoesNotStandBeforeASmallOne) {
  FairQueue queue({});
  for (int i = 0; i < 4000; ++i) {
    ASSERT_TRUE(Push(queue, MakeTicket(nullptr, 1, i)).ok());
  }
  ASSERT_TRUE(Push(queue, MakeTicket(nullptr, 2, -1)).ok());
  int before = 0;
  while (NumberOf(*queue.Pop(kMuch)) != -1) {
    ++before;
  }
  EXPECT_LE(before, 1);
}

TEST(FairQueueTest, ACallOfWhichNoSourceRunsGoesFirst) {
  FairQueue queue({});
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(Push(queue, MakeTicket(nullptr, 1, 10 + i)).ok());
  }
  const auto first = queue.Pop(kMuch);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Push(queue, MakeTicket(nullptr, 2, 20 + i)).ok());
    ASSERT_TRUE(Push(queue, MakeTicket(nullptr, 3, 30 + i)).ok());
  }
  std::vector<int> order;
  const auto pop = [&] { order.push_back(NumberOf(*queue.Pop(kMuch))); };
  pop();
  pop();
  pop();
  pop();
  EXPECT_THAT(order, ElementsAre(20, 30, 11, 21));
  // Of the second call both sources end: it goes before the others, whose turn it was.
  queue.Ended(nullptr, 1, 2);
  queue.Ended(nullptr, 1, 2);
  pop();
  pop();
  EXPECT_EQ(order.back(), 31);
  EXPECT_EQ(order[4], 22);
}

// Which call is next, by a list of them that is searched anew each time.
TEST(FairQueueTest, TurnsAreThoseOfAPlainList) {
  struct PlainCall {
    int waiting = 0;
    int running = 0;
    int last = 0;  // when it came into its half of the list, or had its turn there
  };
  std::mt19937 random(3);
  for (int trial = 0; trial < 20; ++trial) {
    FairQueue queue({});
    std::map<uint64_t, PlainCall> calls;
    std::vector<uint64_t> running;
    int moment = 0;
    for (int i = 0; i < 3000; ++i) {
      ++moment;
      const int what = static_cast<int>(random() % 3);
      if (what == 0) {
        const uint64_t call = 1 + random() % 7;
        ASSERT_TRUE(Push(queue, MakeTicket(nullptr, call, static_cast<int>(call))).ok());
        PlainCall& plain = calls[call];
        plain.last = plain.waiting == 0 ? moment : plain.last;
        ++plain.waiting;
      } else if (what == 1 && !running.empty()) {
        const size_t which = random() % running.size();
        const uint64_t call = running[which];
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(which));
        queue.Ended(nullptr, 1, call);
        calls[call].last = --calls[call].running == 0 ? moment : calls[call].last;
      } else if (const auto ticket = queue.Pop(kMuch); ticket != nullptr) {
        const PlainCall* next = nullptr;
        uint64_t wanted = 0;
        for (const auto& [call, plain] : calls) {
          if (plain.waiting > 0 &&
              (next == nullptr || std::make_pair(plain.running > 0, plain.last) <
                                      std::make_pair(next->running > 0, next->last))) {
            next = &plain;
            wanted = call;
          }
        }
        ASSERT_EQ(ticket->call, wanted) << trial << " " << i;
        --calls[wanted].waiting;
        ++calls[wanted].running;
        calls[wanted].last = moment;
        running.push_back(wanted);
      } else {
        ASSERT_EQ(queue.size(), 0);
      }
    }
  }
}

// Sources of a call run together and end together: without room that is kept, another call would
// wait until then.
TEST(FairQueueTest, RoomIsKeptForCallsOfWhichNoSourceRuns) {
  FairQueue queue({});
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(Push(queue, MakeTicket(nullptr, 1, i)).ok());
  }
  FairQueue::Room room{64, 1000, /*rows_kept=*/8};
  int held = 0;
  while (queue.Pop(room) != nullptr) {
    --room.rows;
    ++held;
  }
  EXPECT_EQ(held, 56);
  auto other = MakeTicket(nullptr, 2, -1);
  other->rows = 8;
  ASSERT_TRUE(queue.Push(other, kStart).ok());
  ASSERT_TRUE(Push(queue, MakeTicket(nullptr, 2, -2)).ok());
  EXPECT_EQ(NumberOf(*queue.Pop(room)), -1) << "it waits for nothing";
  room.rows -= 8;
  EXPECT_EQ(queue.Pop(room), nullptr);
  // The kept rows are free again before any source of the large call has ended.
  queue.Ended(nullptr, 8, 2);
  room.rows += 8;
  EXPECT_EQ(NumberOf(*queue.Pop(room)), -2);
  // A call that is alone and has nothing running may take all.
  for (int i = 0; i < held; ++i) {
    queue.Ended(nullptr, 1, 1);
  }
  auto wide = MakeTicket(nullptr, 3, -3);
  wide->rows = 64;
  ASSERT_TRUE(queue.Push(wide, kStart).ok());
  queue.Pop({64, 1000, 8});
  EXPECT_EQ(NumberOf(*queue.Pop({64, 1000, 8})), -3);
}

TEST(FairQueueTest, BytesAreKeptAsRowsAre) {
  FairQueue queue({});
  for (int i = 0; i < 10; ++i) {
    auto ticket = MakeTicket(nullptr, 1, i);
    ticket->running_bytes = 10;
    ASSERT_TRUE(queue.Push(ticket, kStart).ok());
  }
  FairQueue::Room room{1000, 50, 0, /*bytes_kept=*/25};
  ASSERT_NE(queue.Pop(room), nullptr);
  room.bytes -= 10;
  ASSERT_NE(queue.Pop(room), nullptr);
  room.bytes -= 10;
  EXPECT_EQ(queue.Pop(room), nullptr);
  EXPECT_EQ(queue.aside().size, 0) << "it waits for its own call";
  auto other = MakeTicket(nullptr, 2, -1);
  other->running_bytes = 30;
  ASSERT_TRUE(queue.Push(other, kStart).ok());
  EXPECT_EQ(NumberOf(*queue.Pop(room)), -1);
}

TEST(FairQueueTest, ACallThatLeavesRoomHoldsUpNoOtherTenantOrPriority) {
  FairQueue queue({});
  for (int i = 0; i < 100; ++i) {
    auto ticket = MakeTicket(nullptr, 1, i);
    ticket->priority = kHighestPriority;
    ASSERT_TRUE(queue.Push(ticket, kStart).ok());
  }
  FairQueue::Room room{64, 1000, /*rows_kept=*/8};
  while (queue.Pop(room) != nullptr) {
    --room.rows;
  }
  auto low = MakeTicket(nullptr, 2, -1);
  low->priority = kLowestPriority;
  ASSERT_TRUE(queue.Push(low, kStart).ok());
  ASSERT_TRUE(Push(queue, MakeTicket(MakeTenant("other"), 3, -2)).ok());
  std::set<int> popped;
  while (const auto ticket = queue.Pop(room)) {
    popped.insert(NumberOf(*ticket));
    --room.rows;
  }
  EXPECT_THAT(popped, ElementsAre(-2, -1));
}

// However many small calls come, a large one goes on: when its sources have ended it is one of
// those of which none runs.
TEST(FairQueueTest, ALargeCallIsNotStarvedBySmallOnes) {
  FairQueue queue({});
  const FairQueue::Room room{2, 1000, 1};
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(Push(queue, MakeTicket(nullptr, 1, 1)).ok());
  }
  uint64_t small = 2;
  int of_large = 0;
  std::deque<std::unique_ptr<Ticket>> running;
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(Push(queue, MakeTicket(nullptr, small++, 0)).ok());
    FairQueue::Room left = room;
    left.rows -= static_cast<int>(running.size());
    while (auto ticket = queue.Pop(left)) {
      --left.rows;
      of_large += NumberOf(*ticket);
      running.push_back(std::move(ticket));
    }
    queue.Ended(nullptr, 1, running.front()->call);
    running.pop_front();
  }
  EXPECT_GE(of_large, 4);
}

std::unique_ptr<Ticket> TicketOfCost(double cost, uint64_t call, int number, int rows = 1) {
  auto ticket = MakeTicket(nullptr, call, number);
  ticket->cost = cost;
  ticket->rows = rows;
  return ticket;
}

// A turn is due when a share of the work would have paid for it: of clients that wait, short ones
// go first, and a long one goes when its share is up.
TEST(FairQueueTest, AShortSourceDoesNotWaitForTheTurnsOfLongOnes) {
  FairQueue queue({});
  uint64_t call = 0;
  for (int i = 0; i < 80; ++i) {
    ASSERT_TRUE(Push(queue, TicketOfCost(1000, ++call, 1)).ok());
  }
  int before = 0;
  int shorts = 0;
  while (queue.size() > 0) {
    ASSERT_TRUE(Push(queue, TicketOfCost(40, ++call, 0)).ok());
    // With it one long one may go, as there is work for two.
    for (int i = 0; i < 2 && queue.size() > 0; ++i) {
      const auto ticket = queue.Pop(kMuch);
      ASSERT_NE(ticket, nullptr);
      before += i == 0 && NumberOf(*ticket) == 1 ? 1 : 0;
      shorts += NumberOf(*ticket) == 0 ? 1 : 0;
      queue.Ended(nullptr, 1, ticket->call);
    }
  }
  EXPECT_LE(before, 8) << "the long ones have had nearly all of their share by then";
  EXPECT_GE(shorts, 79);
}

// New clients with short ones come without end, and many of them wait.
TEST(FairQueueTest, ALongSourceIsNotStarvedByShortOnes) {
  FairQueue queue({});
  uint64_t call = 100;
  ASSERT_TRUE(Push(queue, TicketOfCost(1000, 1, -1)).ok());
  for (int i = 0; i < 9; ++i) {
    ASSERT_TRUE(Push(queue, TicketOfCost(10, ++call, 0)).ok());
  }
  int before = 0;
  for (;; ++before) {
    ASSERT_LT(before, 2000);
    ASSERT_TRUE(Push(queue, TicketOfCost(10, ++call, 0)).ok());
    const auto ticket = queue.Pop(kMuch);
    if (NumberOf(*ticket) == -1) {
      break;
    }
    queue.Ended(nullptr, 1, ticket->call);
  }
  EXPECT_NEAR(before, 11 * 1000 / 10, 30) << "a share of eleven";
}

// Of one that waits for rows the light ones take none but those that are kept for them.
TEST(FairQueueTest, LightOnesPassOneThatWaitsForRows) {
  FairQueue queue({});
  FairQueue::Room room{40, 1000};
  room.light_cost = 50;
  room.rows_kept_for_light = 8;
  room.rows_of_light = 6;
  ASSERT_TRUE(Push(queue, TicketOfCost(100, 1, 1, 33)).ok());
  EXPECT_EQ(queue.Pop(room), nullptr) << "it would take some that are kept";
  for (const double cost : {90, 54, 27}) {
    ASSERT_TRUE(Push(queue, TicketOfCost(cost, 2, 0)).ok());
    const auto shorter = queue.Pop(room);
    ASSERT_NE(shorter, nullptr) << cost;
    queue.Ended(nullptr, 1, 2);
  }
  // Their turns are due after that of the first.
  for (uint64_t call = 3; call < 6; ++call) {
    ASSERT_TRUE(Push(queue, TicketOfCost(45 + static_cast<double>(call), call, 2, 3)).ok());
  }
  ASSERT_TRUE(Push(queue, TicketOfCost(60, 6, 3)).ok());
  std::vector<int> taken;
  while (const auto ticket = queue.Pop(room)) {
    taken.push_back(NumberOf(*ticket));
    room.rows -= ticket->rows;
    room.rows_of_light -= ticket->cost <= room.light_cost ? ticket->rows : 0;
  }
  EXPECT_THAT(taken, ElementsAre(2, 2)) << "as light ones have rows";
  room.rows += 7;
  EXPECT_EQ(NumberOf(*queue.Pop(room)), 1);
}

// Heavy ones together have few rows, and hold up no light one.
TEST(FairQueueTest, HeavyOnesWaitForHeavyOnesAlone) {
  FairQueue queue({});
  FairQueue::Room room{1000, 1000};
  room.light_cost = 50;
  room.heavy_cost = 60;
  room.rows_of_heavy = 10;
  ASSERT_TRUE(Push(queue, TicketOfCost(61, 1, 1, 11)).ok());
  EXPECT_EQ(queue.Pop(room), nullptr);
  auto light = TicketOfCost(50, 2, 2, 700);
  light->tenant = MakeTenant("other");
  ASSERT_TRUE(Push(queue, std::move(light)).ok());
  ASSERT_TRUE(Push(queue, TicketOfCost(90, 3, 3, 1)).ok()) << "behind the first";
  EXPECT_EQ(NumberOf(*queue.Pop(room)), 2);
  EXPECT_EQ(queue.Pop(room), nullptr);
  room.rows_of_heavy = 11;
  EXPECT_EQ(NumberOf(*queue.Pop(room)), 1);
}

std::unique_ptr<Ticket> TicketOf(uint64_t client, uint64_t call, int number = 0) {
  auto ticket = MakeTicket(nullptr, call, number);
  ticket->client = client;
  return ticket;
}

// However many calls a client has, it delays another by one source; and its calls take turns.
TEST(FairQueueTest, ClientsTakeTurnsAndSoDoTheirCalls) {
  FairQueue queue({});
  for (int i = 0; i < 3; ++i) {
    for (uint64_t call = 101; call < 200; ++call) {
      ASSERT_TRUE(Push(queue, TicketOf(7, call, i)).ok());
    }
  }
  ASSERT_TRUE(Push(queue, TicketOf(8, 201, -1)).ok());
  ASSERT_TRUE(Push(queue, TicketOf(7, 300, -2)).ok()) << "a new call of the first client";
  ASSERT_TRUE(Push(queue, MakeTicket(nullptr, 7, -3)).ok()) << "a call, not the client";
  std::vector<int> order;
  std::map<int, std::set<uint64_t>> rounds;
  while (const auto ticket = queue.Pop(kMuch)) {
    order.push_back(NumberOf(*ticket));
    rounds[NumberOf(*ticket)].insert(ticket->call);
    if (NumberOf(*ticket) == 1 || NumberOf(*ticket) == 2) {
      ASSERT_EQ(rounds[NumberOf(*ticket) - 1].size(), 99U) << "a call had two turns of a round";
    }
  }
  ASSERT_EQ(order.size(), 300U);
  EXPECT_THAT(std::vector<int>(order.begin(), order.begin() + 3), ElementsAre(0, -1, -3));
  EXPECT_EQ(order[101], -2) << "after one turn of each call of its client";
}

// A client of which a source runs goes behind those of which none does, whatever call it is of.
TEST(FairQueueTest, AClientOfWhichASourceRunsGoesLast) {
  FairQueue queue({});
  for (uint64_t call = 1; call < 5; ++call) {
    ASSERT_TRUE(Push(queue, TicketOf(7, call, 7)).ok());
  }
  ASSERT_NE(queue.Pop(kMuch), nullptr);
  for (uint64_t call = 10; call < 13; ++call) {
    ASSERT_TRUE(Push(queue, TicketOf(call, call, static_cast<int>(call))).ok());
  }
  std::vector<int> order;
  while (const auto ticket = queue.Pop(kMuch)) {
    order.push_back(NumberOf(*ticket));
  }
  EXPECT_THAT(order, ElementsAre(10, 11, 12, 7, 7, 7));
}

// A large call delays a small one of its client as little as one of another.
TEST(FairQueueTest, HalfOfTheRoomIsKeptForOtherCallsOfTheClient) {
  FairQueue queue({});
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(Push(queue, TicketOf(7, 1, i)).ok());
    ASSERT_TRUE(Push(queue, TicketOf(8, 2, i)).ok());
  }
  FairQueue::Room room{64, 1000, /*rows_kept=*/8};
  const auto count = [&] {
    int taken = 0;
    while (queue.Pop(room) != nullptr) {
      --room.rows;
      ++taken;
    }
    return taken;
  };
  EXPECT_EQ(count(), 56);
  for (uint64_t call = 10; call < 30; ++call) {
    ASSERT_TRUE(Push(queue, TicketOf(8, call)).ok());
  }
  EXPECT_EQ(count(), 4) << "of the second client, behind the first, which may take none";
  ASSERT_TRUE(Push(queue, TicketOf(9, 40)).ok());
  EXPECT_EQ(count(), 1);
}

// Next to a client with one source, others run few rows, for it waits for their steps.
TEST(FairQueueTest, RowsOfAClientAreBounded) {
  FairQueue queue({});
  FairQueue::Room room{1000, 1000};
  room.rows_of_client = 20;
  const auto push = [&queue](uint64_t client, int rows, bool is_stream = false) {
    auto ticket = TicketOf(client, client, static_cast<int>(client));
    ticket->rows = rows;
    ticket->is_stream = is_stream;
    ASSERT_TRUE(Push(queue, std::move(ticket)).ok());
  };
  const auto count = [&] {
    std::map<int, int> taken;
    while (const auto ticket = queue.Pop(room)) {
      ++taken[NumberOf(*ticket)];
    }
    return taken;
  };
  push(3, 500, true);
  for (int i = 0; i < 50; ++i) {
    push(1, 8);
    push(2, 100);
    push(3, 8);
    push(5, 1);
  }
  push(4, 4);
  // Of each the first whatever its rows; a stream's count for nothing, a narrow source's as 8.
  EXPECT_EQ(count(), (std::map<int, int>{{1, 2}, {2, 1}, {3, 3}, {4, 1}, {5, 2}}));
  EXPECT_TRUE(queue.Ended(nullptr, 4, 4, 4)) << "it came alone";
  EXPECT_FALSE(queue.Ended(nullptr, 500, 3, 3, true));
  EXPECT_FALSE(queue.Ended(nullptr, 100, 2, 2));
  EXPECT_EQ(count(), (std::map<int, int>{{2, 1}}));
  EXPECT_FALSE(queue.Ended(nullptr, 8, 1, 1));
  EXPECT_EQ(count(), (std::map<int, int>{{1, 1}}));
  room.rows_of_client = 1000;
  EXPECT_GT(count()[1], 40);
}

// Clients with wide sources take turns where few of those may run.
TEST(FairQueueTest, WideSourcesAreBounded) {
  FairQueue queue({});
  FairQueue::Room room{1000, 1000};
  room.rows_of_wide = 64;
  for (int i = 0; i < 3; ++i) {
    for (uint64_t client = 1; client <= 4; ++client) {
      auto ticket = TicketOf(client, client, static_cast<int>(client));
      ticket->rows = 32;
      ticket->wide_rows = client == 4 ? 0 : 32;
      ASSERT_TRUE(Push(queue, std::move(ticket)).ok());
    }
  }
  std::vector<int> order;
  const auto pop = [&] {
    while (const auto ticket = queue.Pop(room)) {
      order.push_back(NumberOf(*ticket));
    }
  };
  pop();
  EXPECT_THAT(order, ElementsAre(1, 2, 4, 4, 4));
  for (const uint64_t client : {1, 2, 3, 1}) {
    queue.Ended(nullptr, 32, client, client, /*is_stream=*/false, /*wide_rows=*/32);
    pop();
  }
  EXPECT_THAT(order, ElementsAre(1, 2, 4, 4, 4, 3, 1, 2, 3, 1)) << "the last is its client's only";
}

// A source with more rows than the bound runs, alone of its kind.
TEST(FairQueueTest, OneWideSourceMayHaveAnyNumberOfRows) {
  FairQueue queue({});
  FairQueue::Room room{1000, 1000};
  room.rows_of_wide = 64;
  for (const uint64_t client : {1, 1, 2, 2}) {
    auto ticket = TicketOf(client, client, static_cast<int>(client));
    ticket->wide_rows = 256;
    ASSERT_TRUE(Push(queue, std::move(ticket)).ok());
  }
  ASSERT_NE(queue.Pop(room), nullptr);
  EXPECT_EQ(queue.Pop(room), nullptr);
}

// The first source of a large call is there before the others.
TEST(FairQueueTest, AWideSourceThatOthersFollowDidNotComeAlone) {
  FairQueue queue({});
  FairQueue::Room room{1000, 1000};
  room.rows_of_wide = 64;
  for (uint64_t call = 1; call <= 3; ++call) {
    auto ticket = TicketOf(call, call, static_cast<int>(call));
    ticket->wide_rows = 64;
    ticket->num_sources = 2;
    ASSERT_TRUE(Push(queue, std::move(ticket)).ok());
  }
  ASSERT_NE(queue.Pop(room), nullptr);
  EXPECT_EQ(queue.Pop(room), nullptr);
}

// A client that wants more rows than it may run is a crowd, also when one of its sources is there.
TEST(FairQueueTest, SourcesOfACrowdAreMarked) {
  FairQueue queue({});
  FairQueue::Room room{1000, 1000};
  room.rows_of_client = 16;
  const auto push = [&](uint64_t client, int rows, int num_sources = 1, bool is_stream = false) {
    auto ticket = TicketOf(client, client, static_cast<int>(client));
    ticket->rows = rows;
    ticket->num_sources = num_sources;
    ticket->is_stream = is_stream;
    ASSERT_TRUE(Push(queue, std::move(ticket)).ok());
  };
  std::map<int, std::vector<bool>> marks;
  const auto pop = [&] {
    marks.clear();
    while (const auto ticket = queue.Pop(room)) {
      marks[NumberOf(*ticket)].push_back(ticket->is_of_crowd);
    }
    return marks;
  };
  push(1, 4);
  push(2, 4);
  push(2, 4);  // a source counts as 8 rows at least
  push(3, 4, /*num_sources=*/3);
  push(4, 17);
  push(5, 500, 1, /*is_stream=*/true);
  for (int i = 0; i < 3; ++i) {
    push(6, 4);
  }
  const std::map<int, std::vector<bool>> expected = {
      {1, {false}}, {2, {false, false}}, {3, {true}}, {4, {true}}, {5, {false}}, {6, {true, true}}};
  EXPECT_EQ(pop(), expected);
  // Two of its sources run, and one waits, which is marked when one of them has ended; the rows of
  // what ended are forgotten.
  queue.Ended(nullptr, 4, 6, 6);
  EXPECT_EQ(pop(), (std::map<int, std::vector<bool>>{{6, {false}}}));
  room.rows_of_client = 1000;
  push(7, 4, 100);
  EXPECT_EQ(pop(), (std::map<int, std::vector<bool>>{{7, {false}}})) << "no other client is there";
}

// Wide sources that came alone, however many run, leave those of large calls their turns.
TEST(FairQueueTest, WideSourcesThatComeAloneDoNotCountAgainstLargeCalls) {
  FairQueue queue({});
  FairQueue::Room room{1000, 1000};
  room.rows_of_wide = 64;
  const auto push = [&](uint64_t client) {
    auto ticket = TicketOf(client, client, static_cast<int>(client));
    ticket->wide_rows = 64;
    ASSERT_TRUE(Push(queue, std::move(ticket)).ok());
  };
  for (const uint64_t client : {1, 2, 3, 3}) {
    push(client);
  }
  std::vector<int> order;
  for (auto ticket = queue.Pop(room); ticket != nullptr; ticket = queue.Pop(room)) {
    order.push_back(NumberOf(*ticket));
    EXPECT_EQ(ticket->wide_rows, order.back() == 3 ? 64 : 0);
  }
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

// When its sources have ended it is one of those of which none runs.
TEST(FairQueueTest, ALargeCallIsNotStarvedByCallsOfItsClient) {
  FairQueue queue({});
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(Push(queue, TicketOf(7, 1, 1)).ok());
  }
  int of_large = 0;
  std::deque<std::unique_ptr<Ticket>> running;
  for (uint64_t call = 2; call < 302; ++call) {
    ASSERT_TRUE(Push(queue, TicketOf(7, call)).ok());
    FairQueue::Room left{2, 1000};
    left.rows -= static_cast<int>(running.size());
    while (auto ticket = queue.Pop(left)) {
      --left.rows;
      of_large += NumberOf(*ticket);
      running.push_back(std::move(ticket));
    }
    queue.Ended(nullptr, 1, running.front()->call, 7);
    running.pop_front();
  }
  EXPECT_GE(of_large, 4);
}

TEST(FairQueueTest, ACallThatFillsTheQueueLeavesPlacesForOthers) {
  FairQueue queue({16, 1000, 1000});
  const auto push = [&queue](uint64_t call) {
    return Reason(Push(queue, MakeTicket(nullptr, call)));
  };
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(push(1), "");
  }
  EXPECT_EQ(push(1), status::reason::kQueueFull);
  EXPECT_FALSE(queue.is_full());
  EXPECT_EQ(push(2), "");
  EXPECT_EQ(push(2), status::reason::kQueueFull) << "one of it waits";
  EXPECT_EQ(push(3), "");
  EXPECT_TRUE(queue.is_full());
  EXPECT_EQ(push(4), status::reason::kQueueFull);
  // As its tickets run, there is room again.
  ASSERT_NE(queue.Pop(kMuch), nullptr);
  ASSERT_NE(queue.Pop(kMuch), nullptr);
  ASSERT_NE(queue.Pop(kMuch), nullptr);
  EXPECT_EQ(push(4), "");
  while (queue.Pop(kMuch) != nullptr) {
  }
  for (uint64_t call = 10; call < 26; ++call) {
    EXPECT_EQ(push(call), "") << "each has one";
  }
  EXPECT_EQ(push(26), status::reason::kQueueFull);
}

// Twenty clients fill it together: none of them has much.
TEST(FairQueueTest, ManyClientsThatFillTheQueueLeavePlacesForOthers) {
  FairQueue queue({160, 1000, 1000});
  for (uint64_t call = 1; call <= 160; ++call) {
    ASSERT_TRUE(Push(queue, TicketOf(1 + call % 20, call)).ok());
  }
  EXPECT_EQ(Reason(Push(queue, TicketOf(1, 200))), status::reason::kQueueFull);
  EXPECT_TRUE(Push(queue, TicketOf(30, 300)).ok());
  EXPECT_EQ(Reason(Push(queue, TicketOf(30, 301))), status::reason::kQueueFull);
}

TEST(FairQueueTest, SharesOfCostConvergeToWeights) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 20; ++trial) {
    FairQueue queue({100000, int64_t{1} << 40, int64_t{1} << 40});
    std::vector<TenantPtr> tenants;
    std::vector<double> served;
    std::vector<std::uniform_real_distribution<double>> costs;
    double weights = 0;
    const int count = 2 + trial % 5;
    double dearest = 1;
    for (int i = 0; i < count; ++i) {
      const double weight = std::pow(2.0, std::uniform_real_distribution<double>(-3, 3)(random));
      tenants.push_back(MakeTenant("t" + std::to_string(i), weight));
      weights += weight;
      const double most = std::uniform_real_distribution<double>(2, 100)(random);
      costs.emplace_back(1, most);
      dearest = std::max(dearest, most);
      served.push_back(0);
    }
    const auto refill = [&](size_t i) {
      auto ticket = MakeTicket(tenants[i], 0, static_cast<int>(i));
      ticket->cost = costs[i](random);
      ASSERT_TRUE(queue.Push(ticket, kStart).ok());
    };
    for (size_t i = 0; i < tenants.size(); ++i) {
      refill(i);
      refill(i);
    }
    double total = 0;
    for (int i = 0; i < 10000; ++i) {
      const auto ticket = queue.Pop(kMuch);
      ASSERT_NE(ticket, nullptr);
      const auto who = static_cast<size_t>(NumberOf(*ticket));
      served[who] += ticket->cost;
      total += ticket->cost;
      queue.Ended(ticket->tenant, ticket->rows);
      refill(who);
    }
    for (size_t i = 0; i < tenants.size(); ++i) {
      // Rounds give all tenants their shares of one sum. Credits, which are what is left of that,
      // are within one request of zero, and each tenant's lag is a sum of all tenants' credits.
      const double share = tenants[i]->weight / weights;
      const double most = dearest * (1 - share + (count - 1) * share);
      EXPECT_NEAR(served[i], total * share, most + 1e-6) << trial << " " << i;
    }
  }
}

TEST(FairQueueTest, PrioritiesAlternateSixteenToFourToOne) {
  FairQueue queue({});
  for (int priority = kHighestPriority; priority <= kLowestPriority; ++priority) {
    for (int i = 0; i < 500; ++i) {
      auto ticket = MakeTicket(nullptr);
      ticket->priority = priority;
      ASSERT_TRUE(queue.Push(ticket, kStart).ok());
    }
  }
  std::array<int, 4> counts{};
  for (int i = 0; i < 210; ++i) {
    ++counts[static_cast<size_t>(queue.Pop(kMuch)->priority)];
  }
  EXPECT_THAT(counts, ElementsAre(0, 160, 40, 10));
}

// Under any stream of others' requests, one that waits is served after a bounded amount of work.
TEST(FairQueueTest, NothingStarves) {
  for (const double weight : {0.01, 1.0, 1000.0}) {
    FairQueue queue({});
    const TenantPtr heavy = MakeTenant("heavy", 1000);
    const TenantPtr small = MakeTenant("small", weight);
    const auto push_heavy = [&] {
      auto ticket = MakeTicket(heavy);
      ticket->priority = kHighestPriority;
      ASSERT_TRUE(queue.Push(ticket, kStart).ok());
    };
    for (int i = 0; i < 10; ++i) {
      push_heavy();
    }
    auto patient = MakeTicket(small, 0, -1);
    patient->priority = kLowestPriority;
    ASSERT_TRUE(queue.Push(patient, kStart).ok());
    int before = 0;
    for (;; ++before) {
      ASSERT_LT(before, 3 * 1000 / weight + 3) << weight;
      const auto ticket = queue.Pop(kMuch);
      if (NumberOf(*ticket) == -1) {
        break;
      }
      queue.Ended(ticket->tenant, ticket->rows);
      push_heavy();
    }
  }
}

// A wide request waits for its room and is not overtaken meanwhile.
TEST(FairQueueTest, WhoIsNextIsWaitedFor) {
  FairQueue queue({});
  auto wide = MakeTicket(nullptr, 0, 1);
  wide->rows = 100;
  ASSERT_TRUE(queue.Push(wide, kStart).ok());
  ASSERT_TRUE(Push(queue, MakeTicket(nullptr, 0, 2)).ok());
  ASSERT_TRUE(Push(queue, MakeTicket(MakeTenant("other"), 0, 3)).ok());
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(queue.Pop({99, 1}), nullptr);
  }
  EXPECT_EQ(NumberOf(*queue.Pop({100, 1})), 1);
  EXPECT_EQ(queue.size(), 2);
}

std::unique_ptr<Ticket> MakeHeavy(int64_t bytes, int number) {
  auto ticket = MakeTicket(nullptr, 0, number);
  ticket->running_bytes = bytes;
  return ticket;
}

std::unique_ptr<Ticket> MakeStream(int64_t bytes, int number) {
  auto ticket = MakeHeavy(bytes, number);
  ticket->is_stream = true;
  return ticket;
}

TEST(FairQueueTest, ABoundedNumberPassesATicketThatWaitsForTheBytesOfCalls) {
  FairQueue queue({});
  ASSERT_TRUE(Push(queue, MakeHeavy(100, -1)).ok());
  for (int i = 0; i < 2 * FairQueue::kMostPasses; ++i) {
    ASSERT_TRUE(Push(queue, MakeHeavy(1, i)).ok());
  }
  const FairQueue::Room half{1000, 50};
  for (int i = 0; i < FairQueue::kMostPasses; ++i) {
    const auto ticket = queue.Pop(half);
    ASSERT_NE(ticket, nullptr) << i;
    EXPECT_EQ(NumberOf(*ticket), i);
  }
  EXPECT_EQ(queue.aside().size, 1);
  EXPECT_EQ(queue.aside().bytes, 100);
  EXPECT_EQ(queue.aside().oldest, kStart);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(queue.Pop(half), nullptr);
  }
  EXPECT_EQ(NumberOf(*queue.Pop({1000, 100})), -1);
  EXPECT_EQ(NumberOf(*queue.Pop(half)), FairQueue::kMostPasses);
  EXPECT_EQ(queue.aside().size, 0);
}

// Streams hold so much that it would not fit if all calls had ended: to hold those up would not
// help.
TEST(FairQueueTest, AnyNumberPassesATicketThatWaitsForStreamsToEnd) {
  FairQueue queue({});
  ASSERT_TRUE(Push(queue, MakeHeavy(100, -1)).ok());
  ASSERT_TRUE(Push(queue, MakeStream(10, -2)).ok());
  FairQueue::Room room{1000, 60};
  room.bytes_without_calls = 99;
  room.stream_bytes = 9;
  for (int i = 0; i < 3 * FairQueue::kMostPasses; ++i) {
    ASSERT_TRUE(Push(queue, MakeHeavy(1, i)).ok());
    const auto ticket = queue.Pop(room);
    ASSERT_NE(ticket, nullptr) << i;
    EXPECT_EQ(NumberOf(*ticket), i);
  }
  EXPECT_EQ(queue.size(), 2);
  EXPECT_EQ(queue.Pop(room), nullptr);
  room.stream_bytes = 10;
  EXPECT_EQ(NumberOf(*queue.Pop(room)), -2);
  EXPECT_EQ(NumberOf(*queue.Pop({1000, 100})), -1);
}

TEST(FairQueueTest, WhatIsAsideCountsAsWaitingAndDiesLikeTheOthers) {
  FairQueue queue({});
  const auto cancelled = std::make_shared<CancelFlag>();
  auto heavy = MakeHeavy(100, -1);
  heavy->cancelled = cancelled;
  heavy->rows = 7;
  heavy->accepted = kStart - absl::Seconds(9);
  ASSERT_TRUE(queue.Push(heavy, kStart).ok());
  EXPECT_EQ(queue.Pop({1000, 50}), nullptr);
  EXPECT_EQ(queue.size(), 1);
  EXPECT_EQ(queue.rows(), 7);
  EXPECT_EQ(queue.oldest(), kStart - absl::Seconds(9));
  ASSERT_EQ(queue.Tenants().size(), 1U);
  EXPECT_EQ(queue.Tenants()[0].waiting, 1);
  EXPECT_TRUE(queue.TakeDead(kStart).empty());
  cancelled->Cancel();
  EXPECT_EQ(queue.TakeDead(kStart).size(), 1U);
  EXPECT_EQ(queue.size(), 0);
  EXPECT_EQ(queue.rows(), 0);
  EXPECT_EQ(queue.aside().size, 0);
  EXPECT_TRUE(queue.Tenants().empty());
}

// A tenant that has reached its limits since its ticket was set aside is passed over.
TEST(FairQueueTest, WhatIsAsideKeepsToTheLimitsOfItsTenant) {
  FairQueue queue({});
  Tenant limits;
  limits.name = "t";
  limits.max_running = 1;
  const auto tenant = std::make_shared<const Tenant>(limits);
  auto heavy = MakeHeavy(100, 1);
  heavy->tenant = tenant;
  ASSERT_TRUE(queue.Push(heavy, kStart).ok());
  ASSERT_TRUE(Push(queue, MakeTicket(tenant, 0, 2)).ok());
  EXPECT_EQ(NumberOf(*queue.Pop({1000, 50})), 2);
  EXPECT_EQ(queue.Pop(kMuch), nullptr);
  queue.Ended(tenant, 1);
  EXPECT_EQ(NumberOf(*queue.Pop(kMuch)), 1);
}

TEST(FairQueueTest, StreamsTakeNoPlaceOfACall) {
  FairQueue queue({10, 1000, 1000});
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(Push(queue, MakeStream(1, i)).ok()) << i;
  }
  EXPECT_EQ(Reason(Push(queue, MakeStream(1, 10))), status::reason::kQueueFull);
  EXPECT_FALSE(queue.is_full()) << "for calls";
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Push(queue, MakeTicket(nullptr)).ok()) << i;
  }
  EXPECT_EQ(Reason(Push(queue, MakeTicket(nullptr))), status::reason::kQueueFull);
  EXPECT_TRUE(queue.is_full());
  // All streams, and two calls.
  for (int i = 0; i < 12; ++i) {
    ASSERT_NE(queue.Pop(kMuch), nullptr);
  }
  EXPECT_EQ(queue.num_calls(), queue.size());
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Push(queue, MakeStream(1, i)).ok()) << i;
  }
  EXPECT_THAT(std::string(Push(queue, MakeStream(1, 0)).message()), HasSubstr("5 streams wait"));
}

TEST(FairQueueTest, RateAndBurstRefuseAndTellWhenToComeBack) {
  FairQueue queue({});
  Tenant limits;
  limits.name = "t";
  limits.rate = 10;
  limits.burst = 3;
  const auto tenant = std::make_shared<const Tenant>(limits);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Push(queue, MakeTicket(tenant)).ok());
  }
  const absl::Status refused = Push(queue, MakeTicket(tenant), kStart + absl::Milliseconds(20));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Reason(refused), status::reason::kTenantRate);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(*status::RetryAfterOf(refused)), 80, 1);
  EXPECT_TRUE(Push(queue, MakeTicket(MakeTenant("other"))).ok());
  EXPECT_TRUE(Push(queue, MakeTicket(tenant), kStart + absl::Milliseconds(101)).ok());
  // Over a long time the rate holds exactly, whatever the burst.
  int accepted = 0;
  for (int ms = 1000; ms < 101000; ms += 7) {
    accepted += Push(queue, MakeTicket(tenant), kStart + absl::Milliseconds(ms)).ok() ? 1 : 0;
    queue.TakeDead(absl::InfiniteFuture());
  }
  EXPECT_NEAR(accepted, 1000 + 3, 3);
  // A clock that is set back takes nothing away.
  EXPECT_FALSE(Push(queue, MakeTicket(tenant), kStart).ok());
}

TEST(FairQueueTest, APauseSavesUpABurstAndNoMore) {
  FairQueue queue({});
  Tenant limits;
  limits.name = "t";
  limits.rate = 10;
  limits.burst = 3;
  const auto tenant = std::make_shared<const Tenant>(limits);
  ASSERT_TRUE(Push(queue, MakeTicket(tenant)).ok());
  int accepted = 0;
  for (int i = 0; i < 10; ++i) {
    accepted += Push(queue, MakeTicket(tenant), kStart + absl::Hours(1)).ok() ? 1 : 0;
  }
  EXPECT_EQ(accepted, 3);
}

TEST(FairQueueTest, DebtsAreForgottenWhenNobodyWaits) {
  FairQueue queue({});
  const TenantPtr spender = MakeTenant("spender");
  // The round that pays for the first one leaves 90, and the second one costs 100.
  for (const double cost : {10.0, 100.0}) {
    auto ticket = MakeTicket(spender);
    ticket->cost = cost;
    ASSERT_TRUE(queue.Push(ticket, kStart).ok());
  }
  ASSERT_NE(queue.Pop(kMuch), nullptr);
  ASSERT_NE(queue.Pop(kMuch), nullptr);
  ASSERT_EQ(queue.size(), 0);
  ASSERT_TRUE(Push(queue, MakeTicket(spender, 0, 1)).ok());
  ASSERT_TRUE(Push(queue, MakeTicket(MakeTenant("other"), 0, 2)).ok());
  EXPECT_EQ(NumberOf(*queue.Pop(kMuch)), 1);
}

// While a request of normal priority waits, one of high priority comes, and is served, at a time:
// the credits of both are equal at the fourth.
TEST(FairQueueTest, OfEqualCreditTheHigherPriorityGoesFirst) {
  FairQueue queue({});
  auto normal = MakeTicket(nullptr, 0, -1);
  normal->priority = 2;
  ASSERT_TRUE(queue.Push(normal, kStart).ok());
  std::vector<int> order;
  for (int i = 0; i < 5; ++i) {
    auto high = MakeTicket(nullptr, 0, i);
    high->priority = 1;
    ASSERT_TRUE(queue.Push(high, kStart).ok());
    order.push_back(NumberOf(*queue.Pop(kMuch)));
  }
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, -1));
}

TEST(FairQueueTest, WhatWaitsRunsAloneWhenLimitsWereLoweredBelowIt) {
  FairQueue queue({});
  Tenant limits;
  limits.name = "t";
  limits.max_rows = 8;
  auto wide = MakeTicket(std::make_shared<const Tenant>(limits), 0, 1);
  wide->rows = 8;
  ASSERT_TRUE(queue.Push(wide, kStart).ok());
  limits.max_rows = 4;
  ASSERT_TRUE(Push(queue, MakeTicket(std::make_shared<const Tenant>(limits), 0, 2)).ok());
  const auto first = queue.Pop(kMuch);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(NumberOf(*first), 1);
  EXPECT_EQ(queue.Pop(kMuch), nullptr);
  queue.Ended(first->tenant, first->rows);
  const auto second = queue.Pop(kMuch);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(NumberOf(*second), 2);
}

// The round that paid for its one request would have paid for ten.
TEST(FairQueueTest, WhatATenantDoesNotSpendIsNotSavedWhileItAsksForNothing) {
  FairQueue queue({});
  const TenantPtr guest = MakeTenant("guest");
  const TenantPtr steady = MakeTenant("steady");
  ASSERT_TRUE(Push(queue, MakeTicket(guest, 0, 1)).ok());
  for (int i = 0; i < 3; ++i) {
    auto ticket = MakeTicket(steady, 0, 2);
    ticket->cost = 10;
    ASSERT_TRUE(queue.Push(ticket, kStart).ok());
  }
  EXPECT_EQ(NumberOf(*queue.Pop(kMuch)), 1);
  EXPECT_EQ(NumberOf(*queue.Pop(kMuch)), 2);
  ASSERT_TRUE(Push(queue, MakeTicket(guest, 0, 1)).ok());
  EXPECT_EQ(NumberOf(*queue.Pop(kMuch)), 2);
}

TEST(FairQueueTest, TheQueueIsBoundedInRequestsRowsAndBytes) {
  FairQueue queue({3, 10, 1000});
  auto ticket = MakeTicket(nullptr);
  ticket->rows = 50;  // more than all may: alone it may wait
  ASSERT_TRUE(queue.Push(ticket, kStart).ok());
  EXPECT_EQ(Reason(Push(queue, MakeTicket(nullptr))), status::reason::kQueueFull);
  ASSERT_NE(queue.Pop(kMuch), nullptr);
  ticket = MakeTicket(nullptr);
  ticket->waiting_bytes = 999;
  ASSERT_TRUE(queue.Push(ticket, kStart).ok());
  ticket = MakeTicket(nullptr);
  ticket->waiting_bytes = 2;
  const absl::Status refused = queue.Push(ticket, kStart);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("999 bytes"));
  EXPECT_NE(ticket, nullptr) << "a refused ticket stays its owner's";
  ASSERT_TRUE(Push(queue, MakeTicket(nullptr)).ok());
  ASSERT_TRUE(Push(queue, MakeTicket(nullptr)).ok());
  EXPECT_THAT(std::string(Push(queue, MakeTicket(nullptr)).message()), HasSubstr("3 requests"));
}

TEST(FairQueueTest, TheDeadLeaveFromAnywhere) {
  FairQueue queue({});
  const auto cancelled = std::make_shared<CancelFlag>();
  for (int i = 0; i < 12; ++i) {
    auto ticket = MakeTicket(MakeTenant("t" + std::to_string(i % 2)), i % 3 == 0 ? 5 : 0, i);
    ticket->priority = 1 + i % 3;
    ticket->deadline = i % 4 == 1 ? kStart + absl::Seconds(1) : absl::InfiniteFuture();
    ticket->cancelled = i % 4 == 2 ? cancelled : nullptr;
    ASSERT_TRUE(queue.Push(ticket, kStart).ok());
  }
  EXPECT_TRUE(queue.TakeDead(kStart).empty());
  EXPECT_THAT(queue.sizes(), ElementsAre(4, 4, 4));
  cancelled->Cancel();
  std::set<int> dead;
  for (const auto& ticket : queue.TakeDead(kStart + absl::Seconds(2))) {
    dead.insert(NumberOf(*ticket));
  }
  EXPECT_THAT(dead, ElementsAre(1, 2, 5, 6, 9, 10));
  EXPECT_THAT(queue.sizes(), ElementsAre(2, 2, 2));
  std::set<int> left;
  while (const auto ticket = queue.Pop(kMuch)) {
    left.insert(NumberOf(*ticket));
  }
  EXPECT_THAT(left, ElementsAre(0, 3, 4, 7, 8, 11));
  EXPECT_THAT(queue.sizes(), ElementsAre(0, 0, 0));
  EXPECT_EQ(queue.size(), 0);
  EXPECT_EQ(queue.rows(), 0);
  EXPECT_EQ(queue.bytes(), 0);
}

// A random life: arrivals, ends and deaths against a model that only counts.
TEST(FairQueueTest, LimitsHoldAndNoRoomIsLeftIdle) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 10; ++trial) {
    constexpr int kRows = 64;
    constexpr int64_t kBytes = 1000;
    FairQueue queue({200, 2000, 100000});
    std::vector<TenantPtr> tenants = {nullptr};
    for (int i = 0; i < 4; ++i) {
      Tenant tenant;
      tenant.name = "t" + std::to_string(i);
      tenant.weight = 1 << i;
      tenant.max_running = 2 + i;
      tenant.max_rows = 16 + i;
      tenants.push_back(std::make_shared<const Tenant>(tenant));
    }
    std::vector<std::unique_ptr<Ticket>> running;
    int rows = 0;
    int64_t bytes = 0;
    int waiting = 0;
    absl::Time now = kStart;
    const auto hold = [&](const Ticket& ticket, int sign) {
      rows += ticket.is_stream ? 0 : sign * ticket.rows;
      bytes += sign * ticket.running_bytes;
    };
    for (int i = 0; i < 5000; ++i) {
      now += absl::Milliseconds(1);
      if (random() % 2 == 0) {
        auto ticket = MakeTicket(tenants[random() % tenants.size()], random() % 6);
        ticket->rows = 1 + static_cast<int>(random() % 16);
        ticket->cost = ticket->rows * (1.0 + random() % 30);
        ticket->is_stream = random() % 4 == 0;
        ticket->running_bytes = 1 + static_cast<int64_t>(random() % kBytes);
        ticket->priority = static_cast<int>(random() % 5);  // also outside the range
        ticket->deadline =
            random() % 8 == 0 ? now + absl::Milliseconds(20) : absl::InfiniteFuture();
        waiting += queue.Push(ticket, now).ok() ? 1 : 0;
      }
      if (random() % 3 == 0 && !running.empty()) {
        std::swap(running[random() % running.size()], running.back());
        queue.Ended(running.back()->tenant, running.back()->rows, running.back()->call);
        hold(*running.back(), -1);
        running.pop_back();
      }
      waiting -= static_cast<int>(queue.TakeDead(now).size());
      while (auto ticket = queue.Pop({kRows - rows, kBytes - bytes})) {
        hold(*ticket, 1);
        --waiting;
        running.push_back(std::move(ticket));
      }
      ASSERT_LE(rows, kRows);
      ASSERT_LE(bytes, kBytes);
      ASSERT_EQ(queue.size(), waiting);
      ASSERT_TRUE(waiting == 0 || !running.empty()) << "nothing runs while something waits";
      for (const TenantLoad& load : queue.Tenants()) {
        const TenantPtr& tenant =
            load.name.empty() ? tenants[0] : tenants[static_cast<size_t>(load.name[1] - '0') + 1];
        if (tenant != nullptr) {
          ASSERT_LE(load.running, tenant->max_running);
          ASSERT_LE(load.running_rows, tenant->max_rows);
        }
      }
    }
  }
}

TEST(FairQueueTest, CostAheadIsTheQueueOrTheTenantsShareOfIt) {
  FairQueue queue({});
  const TenantPtr busy = MakeTenant("busy");
  const TenantPtr calm = MakeTenant("calm", 3);
  const auto ahead = [&queue](const TenantPtr& tenant, double cost, uint64_t call = 0,
                              int priority = kNormalPriority) {
    auto ticket = MakeTicket(tenant, call);
    ticket->cost = cost;
    ticket->priority = priority;
    return queue.CostAhead(*ticket);
  };
  EXPECT_EQ(ahead(busy, 10), 0);
  for (int i = 0; i < 100; ++i) {
    auto ticket = MakeTicket(busy);
    ticket->cost = 10;
    ASSERT_TRUE(queue.Push(ticket, kStart).ok());
  }
  EXPECT_EQ(ahead(busy, 10), 1000);
  // Of four shares calm has three: a third of its cost passes before it is done.
  EXPECT_NEAR(ahead(calm, 30), 10, 1e-9);
  // Of the other priorities as many as have turns meanwhile.
  EXPECT_NEAR(ahead(busy, 10, 0, kHighestPriority), 10, 1e-9);
  EXPECT_EQ(ahead(busy, 10, 0, kLowestPriority), 40);
}

// Not its own cost, and not all that the others have: one turn of each of them.
TEST(FairQueueTest, CostAheadOfACallIsATurnOfEachOther) {
  FairQueue queue({});
  const auto push = [&queue](uint64_t call, double cost) {
    auto ticket = MakeTicket(nullptr, call);
    ticket->cost = cost;
    ASSERT_TRUE(queue.Push(ticket, kStart).ok());
  };
  for (int i = 0; i < 4000; ++i) {
    push(1, i % 2 == 0 ? 50 : 150);
  }
  push(2, 7);
  push(2, 7);
  const auto ahead = [&queue](uint64_t call) {
    auto ticket = MakeTicket(nullptr, call);
    ticket->cost = 12345;
    return queue.CostAhead(*ticket);
  };
  EXPECT_NEAR(ahead(3), 107, 1e-6);
  // Of the second call two wait already: each of them, and the new one, waits for a turn.
  EXPECT_NEAR(ahead(2), 14 + 3 * 100, 1e-6);
  // The large call waits for itself, and for all that the other has.
  EXPECT_NEAR(ahead(1), 4000 * 100 + 14, 1e-6);
  while (queue.Pop(kMuch) != nullptr) {
  }
  EXPECT_EQ(ahead(3), 0);
}

TEST(FairQueueTest, CostAheadOfAClientIsATurnOfEachOther) {
  FairQueue queue({});
  const auto make = [](uint64_t client, uint64_t call) {
    auto ticket = TicketOf(client, call);
    ticket->cost = 100;
    return ticket;
  };
  for (uint64_t call = 1; call <= 900; ++call) {
    ASSERT_TRUE(Push(queue, make(1 + call % 3, call)).ok());
  }
  EXPECT_NEAR(queue.CostAhead(*make(9, 1000)), 300, 1e-6) << "of three clients";
  EXPECT_NEAR(queue.CostAhead(*make(1, 1000)), 300 * 100 + 301 * 200 - 200, 1e-6);
  std::vector<std::unique_ptr<Ticket>> running;
  for (int i = 0; i < 3; ++i) {
    running.push_back(queue.Pop(kMuch));
  }
  EXPECT_NEAR(queue.CostAhead(*make(9, 1000)), 0, 1e-6) << "all others have sources running";
  // The second waits for the first, and for a turn of each.
  ASSERT_TRUE(Push(queue, make(9, 1000)).ok());
  EXPECT_NEAR(queue.CostAhead(*make(9, 1001)), 100 + 300, 1e-6);
}

// Ten clients wait with long sources: short ones go first, until the long ones' turns are due.
TEST(FairQueueTest, CostAheadIsOfTurnsThatAreDueBeforeTheTickets) {
  FairQueue queue({});
  uint64_t call = 0;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(Push(queue, TicketOfCost(1000, ++call, 1)).ok());
  }
  EXPECT_EQ(queue.CostAhead(*TicketOfCost(40, 99, 0)), 0);
  EXPECT_NEAR(queue.CostAhead(*TicketOfCost(1000, 99, 0)), 10 * 1000, 1e-6);
  // Short ones get as much work as pays for 960 of each of eleven clients.
  for (int i = 0; i < 960 * 11 / 40; ++i) {
    ASSERT_TRUE(Push(queue, TicketOfCost(40, ++call, 0)).ok());
    const auto ticket = queue.Pop(kMuch);
    ASSERT_EQ(NumberOf(*ticket), 0) << i;
    queue.Ended(nullptr, 1, ticket->call);
  }
  EXPECT_NEAR(queue.CostAhead(*TicketOfCost(41, 99, 0)), 10 * 1000, 1e-6);
  ASSERT_TRUE(Push(queue, TicketOfCost(41, 99, 0)).ok());
  double before = 0;
  for (;;) {
    const auto ticket = queue.Pop(kMuch);
    if (NumberOf(*ticket) == 0) {
      break;
    }
    before += ticket->cost;
    queue.Ended(nullptr, 1, ticket->call);
  }
  EXPECT_NEAR(before, 10 * 1000, 1e-6) << "as forecast";
}

}  // namespace
}  // namespace beamwright::engine
