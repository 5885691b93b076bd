// Decodes the words given as arguments: beamwright-example-decode localhost:8001 hello world
#include <iostream>

#include "absl/time/clock.h"
#include "beamwright/client.h"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  auto client = beamwright::client::Client::Connect({.address = argv[1]});
  if (!client.ok()) return 2;
  beamwright::v1::DecodeRequest request;
  request.mutable_options()->set_beam_size(8);
  for (int i = 2; i < argc; ++i) request.add_sources()->set_text(argv[i]);
  auto response = (*client)->Decode(request, absl::Now() + absl::Seconds(30));
  if (!response.ok()) {
    std::cerr << response.status().ToString(absl::StatusToStringMode::kWithNoExtraData) << "\n";
    return 1;
  }
  for (const auto& result : response->results()) {
    absl::Status status = beamwright::client::ResultStatus(result);
    if (!status.ok()) std::cerr << status << "\n";
    for (const auto& best : result.decoded().hypotheses()) std::cout << best.text() << "\n";
  }
}
