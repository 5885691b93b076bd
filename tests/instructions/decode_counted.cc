// Decodes a source under callgrind, which counts instructions between the two marks:
// decode_counted BUNDLE PRECISION TEXT TIMES. Prints how many steps that took.
#include <valgrind/callgrind.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "engine/model/decode_model.h"
#include "include/beamwright/engine.h"
#include "ops/base/status.h"

namespace beamwright {
namespace {

absl::StatusOr<int> CountedSteps(const std::string& folder, const std::string& precision,
                                 const std::string& text, int times) {
  BW_ASSIGN_OR_RETURN(bundle::Bundle bundle, bundle::LoadBundle(folder));
  engine::CompileOptions compile;
  BW_ASSIGN_OR_RETURN(compile.precision, engine::ParsePrecision(precision));
  BW_ASSIGN_OR_RETURN(const std::shared_ptr<const engine::DecodeModel> model,
                      engine::DecodeModel::Compile(std::move(bundle), compile));
  // Threads that wait for others spin, and how long depends on the machine.
  engine::EngineOptions options;
  options.num_threads = 1;
  BW_ASSIGN_OR_RETURN(const std::unique_ptr<engine::Engine> engine, engine::Engine::Start(options));
  v1::Source source;
  source.set_text(text);
  // What only the first request pays: buffers grow to their size.
  BW_RETURN_IF_ERROR(engine->DecodeAndWait(model, source, {}).status());
  int steps = 0;
  CALLGRIND_START_INSTRUMENTATION;
  for (int i = 0; i < times; ++i) {
    BW_ASSIGN_OR_RETURN(const v1::Decoded decoded, engine->DecodeAndWait(model, source, {}));
    steps += decoded.steps();
  }
  CALLGRIND_STOP_INSTRUMENTATION;
  return steps;
}

}  // namespace
}  // namespace beamwright

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: decode_counted BUNDLE PRECISION TEXT TIMES\n");
    return 2;
  }
  const auto steps = beamwright::CountedSteps(argv[1], argv[2], argv[3], std::atoi(argv[4]));
  if (!steps.ok()) {
    std::fprintf(stderr, "%s\n", steps.status().ToString().c_str());
    return 1;
  }
  std::printf("%d\n", *steps);
  return 0;
}
