// Decodes words in process, without a server: decode_in_process models/g2p-en/1 hello world
#include <cstdio>

#include "include/beamwright/engine.h"

int main(int argc, char** argv) {
  auto bundle = beamwright::bundle::LoadBundle(argc > 1 ? argv[1] : "models/g2p-en/1");
  auto model =
      bundle.ok() ? beamwright::engine::DecodeModel::Compile(*std::move(bundle)) : bundle.status();
  auto engine = beamwright::engine::Engine::Start({});
  if (!model.ok() || !engine.ok()) {
    std::fprintf(stderr, "%s\n", model.status().ToString().c_str());
    return 1;
  }
  for (int i = 2; i < argc; ++i) {
    beamwright::v1::Source source;
    source.set_text(argv[i]);
    const auto decoded = (*engine)->DecodeAndWait(*model, source, {});
    std::printf(
        "%s\t%s\n", argv[i],
        decoded.ok() ? decoded->hypotheses(0).text().c_str() : decoded.status().ToString().c_str());
  }
  return 0;
}
