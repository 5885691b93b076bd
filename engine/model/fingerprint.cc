#include "engine/model/fingerprint.h"

#include <openssl/evp.h>

#include <memory>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "ops/base/check.h"
#include "ops/tensor/deferred.h"

namespace beamwright::engine {
namespace {

// Everything is added with its size, so that no two sequences of fields have the same bytes.
class Hash {
 public:
  Hash() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    BW_CHECK(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }

  void AddBytes(const void* bytes, size_t size) {
    const auto count = static_cast<uint64_t>(size);
    Update(&count, sizeof(count));
    Update(bytes, size);
  }
  void Add(absl::string_view text) { AddBytes(text.data(), text.size()); }
  void Add(const std::string& text) { Add(absl::string_view(text)); }
  template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>
  void Add(Number number) {
    Update(&number, sizeof(number));
  }
  template <typename Element>
  void Add(const std::vector<Element>& elements) {
    Add(static_cast<uint64_t>(elements.size()));
    for (const Element& element : elements) {
      Add(element);
    }
  }
  std::string Get() {
    std::string digest(EVP_MAX_MD_SIZE, '\0');
    unsigned int size = 0;
    BW_CHECK(EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()),
                                &size) == 1);
    digest.resize(size);
    return digest;
  }

 private:
  void Update(const void* bytes, size_t size) {
    BW_CHECK(EVP_DigestUpdate(context_.get(), bytes, size) == 1);
  }

  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

void AddGraph(const ops::Graph& graph, Hash& hash) {
  hash.Add(static_cast<uint64_t>(graph.nodes.size()));
  for (const ops::Node& node : graph.nodes) {
    hash.Add(node.op);
    for (const auto& [name, value] : node.attributes.values()) {
      hash.Add(name);
      std::visit([&](const auto& own) { hash.Add(own); }, value);
    }
    for (const ops::ValueId input : node.inputs) {
      hash.Add(input.node);
      hash.Add(input.output);
    }
    if (node.constant.has_value()) {
      hash.Add(static_cast<int>(node.constant.dtype()));
      hash.Add(std::vector<int64_t>(node.constant.shape().begin(), node.constant.shape().end()));
      hash.AddBytes(node.constant.bytes(), static_cast<size_t>(node.constant.num_bytes()));
      ops::ForgetIdle();
    }
    ops::VisitBodies(node,
                     [&](const ops::Graph& body, absl::string_view) { AddGraph(body, hash); });
  }
  hash.Add(graph.parameters);
  hash.Add(graph.results);
}

}  // namespace

std::string Fingerprint(const ops::Graph& decoder, const v1::DecoderConfig& config,
                        const bundle::TextCodec& target) {
  Hash hash;
  AddGraph(decoder, hash);
  hash.Add(config.SerializeAsString());
  for (int32_t token = 0; token < target.size(); ++token) {
    hash.Add(target.TokenText(token));
  }
  hash.Add(target.begin_id());
  return hash.Get();
}

}  // namespace beamwright::engine
