#include "server/rpc/connection_calls.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "absl/strings/str_cat.h"

namespace beamwright::rpc {

std::string ConnectionCalls::PeerOf(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN];
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v4.sin_port));
  }
  if (address.ss_family != AF_INET6) {
    return "";
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v6.sin6_port));
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  // gRPC writes a URI, which escapes brackets.
  return absl::StrCat("ipv6:%5B", text, "%5D:", ntohs(v6.sin6_port));
}

std::shared_ptr<const ConnectionCalls::Counts> ConnectionCalls::Add(const std::string& peer) {
  if (peer.empty()) {
    return nullptr;
  }
  auto counts = std::make_shared<Counts>();
  absl::MutexLock lock(&mutex_);
  connections_[peer] = counts;
  return counts;
}

void ConnectionCalls::Remove(const std::string& peer, const std::shared_ptr<const Counts>& counts) {
  absl::MutexLock lock(&mutex_);
  const auto found = connections_.find(peer);
  if (found != connections_.end() && found->second == counts) {
    connections_.erase(found);
  }
}

std::shared_ptr<ConnectionCalls::Counts> ConnectionCalls::Find(absl::string_view peer) {
  absl::MutexLock lock(&mutex_);
  const auto found = connections_.find(peer);
  return found == connections_.end() ? nullptr : found->second;
}

}  // namespace beamwright::rpc
