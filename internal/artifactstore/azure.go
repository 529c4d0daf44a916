package artifactstore

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
)

// blockBytes is the part of a file on its way to Azure that is held in memory: a file consists of 50,000 blocks at the most.
const blockBytes = 1 << 20

// azure is a container of a storage account.
type azure struct{ container *container.Client }

func openAzure(a Address, client *http.Client, lookup func(string) (string, bool)) (bucket, error) {
	get := func(name string) string { value, _ := lookup(name); return value }
	options := &container.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: client,
		Retry:     policy.RetryOptions{MaxRetries: -1}, // that is for all stores alike
	}}
	if text := cmp.Or(get("AZURE_BLOB_CONNECTION_STRING"), get("AZURE_STORAGE_CONNECTION_STRING")); text != "" {
		container, err := container.NewClientFromConnectionString(text, a.bucket, options)
		if err != nil { // which may repeat a part of the text
			return nil, &known{words: "the connection string is malformed; copy it from the storage account's access keys"}
		}
		return azure{container}, nil
	}
	account, key := get("AZURE_STORAGE_ACCOUNT"), get("AZURE_STORAGE_KEY")
	if account == "" || key == "" {
		return nil, &known{words: "there are no credentials; set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY"}
	}
	credential, err := container.NewSharedKeyCredential(account, key)
	if err != nil {
		return nil, &known{words: "AZURE_STORAGE_KEY is no key of a storage account: it is not base64"}
	}
	container, err := container.NewClientWithSharedKeyCredential("https://"+account+".blob.core.windows.net/"+a.bucket, credential, options)
	if err != nil {
		return nil, &known{words: "AZURE_STORAGE_ACCOUNT is no name of a storage account"}
	}
	return azure{container}, nil
}

func (a azure) put(ctx context.Context, key, mime string, _ int64, content io.Reader) error {
	_, err := a.container.NewBlockBlobClient(key).UploadStream(ctx, content, &blockblob.UploadStreamOptions{
		BlockSize: blockBytes, Concurrency: 1, HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr(mime)},
	})
	return err
}

func (a azure) create(ctx context.Context) error {
	_, err := a.container.Create(ctx, nil)
	if bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
		return nil
	}
	return err
}

func (a azure) link(_ context.Context, key string, lifetime time.Duration) (string, error) {
	address, err := a.container.NewBlobClient(key).GetSASURL(sas.BlobPermissions{Read: true}, time.Now().Add(lifetime), nil)
	if err != nil {
		return "", errors.New("the connection string has no account key")
	}
	return address, nil
}
