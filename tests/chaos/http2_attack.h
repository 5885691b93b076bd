// Clients that send frames of HTTP/2 which cost them nothing and a server much, as fast as they
// can.
#ifndef BEAMWRIGHT_TESTS_CHAOS_HTTP2_ATTACK_H_
#define BEAMWRIGHT_TESTS_CHAOS_HTTP2_ATTACK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace beamwright::chaos {

struct Http2Attack {
  std::string name;
  // Behind the preface, on each new connection.
  std::string opening;
  // What is sent again and again; takes new streams' numbers from `stream`, odd ones in order.
  std::function<std::string(uint32_t& stream)> next;
  // Whether an answer is read.
  bool reads = true;
  // Whether each connection comes from an address that no other has.
  bool new_addresses = false;
};

Http2Attack RapidReset();
Http2Attack RapidResetFromNewAddresses();
// Whole calls of a method that there is not, and of reflection.
Http2Attack UnknownMethods();
Http2Attack Reflection();
// Calls with a request that could be decoded, reset at once.
Http2Attack WholeCallsReset();
// A header block with 30 KB of fields, reset at once.
Http2Attack LargeHeaderLists();
// Header blocks that refer 4,000 times to a field of 4 KB.
Http2Attack HeaderReferences();
Http2Attack SettingsFlood();
Http2Attack PingFlood();
Http2Attack ContinuationFlood();
Http2Attack WindowUpdateFlood();
Http2Attack EmptyDataFlood();
// A hundred calls whose answers find no window and are never read.
Http2Attack ZeroWindow();
// Requests that begin and never end, on as many streams as there may be.
Http2Attack UnfinishedBodies();
// The same without end, which gRPC allows for as long as its settings are not acknowledged.
Http2Attack TooManyStreams();

// Attacks while it lives, on several connections at a time; one that is closed is opened again.
class Attackers {
 public:
  // From `address`, unless the attack takes new ones.
  Attackers(int port, const Http2Attack& attack, int count,
            const std::string& address = "127.0.0.2");
  ~Attackers();
  // Connections that the server closed or refused.
  int64_t num_closed() const { return num_closed_; }

 private:
  void Run();

  std::string NextAddress();

  const int port_;
  const Http2Attack attack_;
  const std::string address_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> num_closed_{0};
  std::atomic<uint32_t> num_addresses_{0};
  std::vector<std::thread> threads_;
};

}  // namespace beamwright::chaos

#endif  // BEAMWRIGHT_TESTS_CHAOS_HTTP2_ATTACK_H_
