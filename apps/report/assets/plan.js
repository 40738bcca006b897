// A plan's page: its charts are drawn already.

addCopying();
