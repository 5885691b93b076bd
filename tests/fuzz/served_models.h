// What fuzz targets serve: small models that hear tones, with all that stands between a listener
// and the engine.
#ifndef BEAMWRIGHT_TESTS_FUZZ_SERVED_MODELS_H_
#define BEAMWRIGHT_TESTS_FUZZ_SERVED_MODELS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/serving/core.h"

namespace beamwright::fuzzing {

// Between the parts of an input: a line that people can write.
inline constexpr absl::string_view kBetweenParts = "\n====\n";

// At most `most`; the last one holds what is left. At least one.
std::vector<absl::string_view> Parts(absl::string_view input, size_t most);

// Models by these names: 'tones', a transducer whose encoder reads the whole source, 'chunks', a
// CTC model whose encoder reads chunk by chunk, and those of `folders`. Ends with the process.
class ServedModels {
 public:
  explicit ServedModels(const std::vector<std::string>& folders = {});

  serving::Core& core() { return *core_; }
  // Every call was answered, or given up, and let go. False: one was not within seconds.
  bool HaveAnswered();

 private:
  serving::ServingState state_;
  serving::Metrics metrics_;
  std::unique_ptr<serving::ModelRegistry> models_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<serving::Core> core_;
};

}  // namespace beamwright::fuzzing

#endif  // BEAMWRIGHT_TESTS_FUZZ_SERVED_MODELS_H_
