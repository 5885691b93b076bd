// The reader of Marian's .bin files and all that is done with a graph before it runs: whatever the
// bytes, findings or an error.
#include "ops/import/marian.h"
#include "tools/graph/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace beamwright::ops;
  const std::string content(reinterpret_cast<const char*>(data), size);
  for (const MarianPart part : {MarianPart::kEncoder, MarianPart::kDecoder}) {
    absl::StatusOr<Graph> graph = ReadMarian(beamwright::InputFile::OfContent(content), part);
    if (graph.ok()) {
      CheckGraph(*std::move(graph));
    }
  }
  return 0;
}
