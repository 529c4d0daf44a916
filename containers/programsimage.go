// The programs as an image, for engines that mount images and have no volumes to unpack an archive into.

package containers

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// ProgramsGroup may read the supervisor of the programs image, which else only root may: a container that copies the programs into a volume
// runs in it, as some other user. Code of a session never does.
const ProgramsGroup = 59531

// The media types of the parts of an image, and the annotations by which Podman and containerd name a loaded one.
const (
	ociIndex    = "application/vnd.oci.image.index.v1+json"
	ociManifest = "application/vnd.oci.image.manifest.v1+json"
	ociConfig   = "application/vnd.oci.image.config.v1+json"
	ociLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"

	ociName        = "org.opencontainers.image.ref.name"
	containerdName = "io.containerd.image.name"
)

// ProgramsRef names the image that a release publishes of this binary's programs. Its tag depends on its contents, for all kinds of
// processors.
func ProgramsRef() string {
	sum := sha256.New()
	for _, arch := range Architectures() {
		hash, err := ProgramsHash(arch)
		if err != nil {
			panic(err) // every architecture listed has programs
		}
		fmt.Fprintln(sum, arch, hash)
	}
	return PublishedImages().Registry + "/code-sandbox-mcp-programs:" + hex.EncodeToString(sum.Sum(nil))[:12]
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// ProgramsImage writes an OCI archive of an image with the programs at its root, for every kind of processor; loading it names it ref. The
// same programs make the same bytes.
func ProgramsImage(w io.Writer, ref string) error {
	a := &ociArchive{w: tar.NewWriter(w)}
	var manifests []descriptor
	for _, arch := range Architectures() {
		manifests = append(manifests, a.image(arch))
	}
	list := a.blob(ociIndex, marshal(index(manifests...)))
	list.Annotations = map[string]string{ociName: ref, containerdName: ref}
	a.file("index.json", marshal(index(list)))
	a.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	if a.err != nil {
		return a.err
	}
	return a.w.Close()
}

// ociArchive is written part by part; the first error ends it.
type ociArchive struct {
	w   *tar.Writer
	err error
}

// image writes the image for one kind of processor.
func (a *ociArchive) image(arch string) descriptor {
	files, err := Programs(arch)
	if err != nil {
		a.err = err
		return descriptor{}
	}
	layer, content, err := programsLayer(files)
	if err != nil {
		a.err = err
		return descriptor{}
	}
	config := a.blob(ociConfig, marshal(map[string]any{
		"created": time.Unix(0, 0).UTC(), "architecture": arch, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/supervisor"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(content)}},
	}))
	manifest := a.blob(ociManifest, marshal(map[string]any{
		"schemaVersion": 2, "mediaType": ociManifest, "config": config, "layers": []descriptor{a.blob(ociLayer, layer)},
	}))
	manifest.Platform = &platform{arch, "linux"}
	return manifest
}

// programsLayer returns a layer, packed and unpacked.
func programsLayer(files []File) (packed, content []byte, err error) {
	var buffer bytes.Buffer
	if err := writeArchive(&buffer, files, ProgramsGroup); err != nil {
		return nil, nil, err
	}
	var layer bytes.Buffer
	z, err := gzip.NewWriterLevel(&layer, gzip.BestCompression)
	if err != nil {
		return nil, nil, err
	}
	if _, err := z.Write(buffer.Bytes()); err != nil {
		return nil, nil, err
	}
	if err := z.Close(); err != nil {
		return nil, nil, err
	}
	return layer.Bytes(), buffer.Bytes(), nil
}

// blob writes a part, named by its digest.
func (a *ociArchive) blob(mediaType string, content []byte) descriptor {
	sum := digest(content)
	a.file("blobs/sha256/"+sum[len("sha256:"):], content)
	return descriptor{MediaType: mediaType, Digest: sum, Size: len(content)}
}

func (a *ociArchive) file(name string, content []byte) {
	if a.err != nil {
		return
	}
	if a.err = a.w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(0, 0)}); a.err == nil {
		_, a.err = a.w.Write(content)
	}
}

func index(manifests ...descriptor) map[string]any {
	return map[string]any{"schemaVersion": 2, "mediaType": ociIndex, "manifests": manifests}
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func marshal(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // all values are plain
	}
	return text
}
