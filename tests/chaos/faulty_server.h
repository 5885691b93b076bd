// FaultyServer: a server with the default model whose faults a test switches on and off while it
// runs (faults/fault_hook.cc).
#ifndef BEAMWRIGHT_TESTS_CHAOS_FAULTY_SERVER_H_
#define BEAMWRIGHT_TESTS_CHAOS_FAULTY_SERVER_H_

#include <grpcpp/channel.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/server_process.h"

namespace beamwright::chaos {

class FaultyServer : public ::testing::Test {
 protected:
  FaultyServer();
  ~FaultyServer() override;

  // To the repository, of the model g2p-en; version 1 is there.
  void AddVersion(const std::string& version) const;
  // What goes wrong from now on; by rename, so that no half of it is read.
  void Set(const std::string& faults) const;
  // Starts the server and waits until it serves.
  void Start(std::vector<std::string> arguments = {});
  // The same without waiting, and without arguments.
  void StartWith(const std::vector<std::string>& arguments);
  grpc::Status Load();
  // The version that answers a request, or why none does.
  std::string Version();
  // The status of a probe; 0 without an answer.
  int Probe(const std::string& path);
  // Waits until a probe says so.
  void WaitForProbe(const std::string& path, int status);

  std::string folder_;
  std::unique_ptr<e2e::ServerProcess> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace beamwright::chaos

#endif  // BEAMWRIGHT_TESTS_CHAOS_FAULTY_SERVER_H_
