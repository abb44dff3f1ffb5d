# Homebrew's formula: packaging/homebrew.sh writes the release's version, addresses and sums into it.
class Safemigrate < Formula
  desc "Rehearses PostgreSQL migrations on a full-size clone"
  homepage "@REPOSITORY@"
  version "@VERSION@"
  license "MIT"

  on_macos do
    on_arm do
      url "@REPOSITORY@/releases/download/v@VERSION@/safemigrate-@VERSION@-darwin-arm64.gz"
      sha256 "@darwin-arm64@"
    end
    on_intel do
      url "@REPOSITORY@/releases/download/v@VERSION@/safemigrate-@VERSION@-darwin-x64.gz"
      sha256 "@darwin-x64@"
    end
  end
  on_linux do
    on_arm do
      url "@REPOSITORY@/releases/download/v@VERSION@/safemigrate-@VERSION@-linux-arm64.gz"
      sha256 "@linux-arm64@"
    end
    on_intel do
      url "@REPOSITORY@/releases/download/v@VERSION@/safemigrate-@VERSION@-linux-x64.gz"
      sha256 "@linux-x64@"
    end
  end

  def install
    # Homebrew has unpacked it.
    program = "safemigrate-#{version}-#{OS.mac? ? "darwin" : "linux"}-#{Hardware::CPU.arm? ? "arm64" : "x64"}"
    chmod 0755, program
    bin.install program => "safemigrate"
    generate_completions_from_executable(bin/"safemigrate", "completion")
  end

  test do
    assert_equal version.to_s, shell_output("#{bin}/safemigrate --version").strip
  end
end
